// dslide_simulate: runs seeds, and says which of them break a promise.

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "core/base/clock.h"
#include "core/system/log.h"
#include "services/shard/durability/durability.h"
#include "tests/simulation/simulation.h"

namespace dslide::simulation {
namespace {

constexpr char kUsage[] =
    "usage: dslide_simulate [--seeds N] [--first-seed S] [--trace] [--bug NAME] [-o json]\n"
    "\n"
    "Simulates a cluster with faults, once for each seed from S on, and every tenth seed twice.\n"
    "  --trace   prints everything that happens\n"
    "  --bug     plants a mistake, which must be found\n"
    "Exit code 0: no promise was broken, and equal seeds went equal ways.\n";
// Runs that are repeated to compare their hashes: one in so many.
constexpr uint64_t kRepeatEvery = 10;
constexpr size_t kMostShown = 5;

struct Options {
  uint64_t seeds = 1000;
  uint64_t first_seed = 1;
  bool trace = false;
  bool json = false;
  Bug bug = Bug::kNone;
};

bool Parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--trace") {
      options.trace = true;
      continue;
    }
    if (++i == argc) return false;
    const std::string value = argv[i];
    if (flag == "--seeds" && absl::SimpleAtoi(value, &options.seeds)) continue;
    if (flag == "--first-seed" && absl::SimpleAtoi(value, &options.first_seed)) continue;
    if (flag == "-o" && value == "json") {
      options.json = true;
      continue;
    }
    const std::optional<Bug> bug = flag == "--bug" ? BugOfName(value) : std::nullopt;
    if (!bug.has_value()) return false;
    options.bug = *bug;
  }
  return true;
}

struct Sums {
  uint64_t seeds = 0;
  uint64_t violations = 0;  // seeds with one
  uint64_t repeated = 0;
  uint64_t trace_hash_mismatches = 0;
  FaultCounts faults = {};
  std::map<std::string, int64_t> modes;
  int64_t updates = 0, events = 0;
  std::vector<std::string> shown;
};

std::string Repetition(const Options& options, uint64_t seed) {
  const std::string bug =
      options.bug == Bug::kNone ? "" : absl::StrFormat(" --bug %s", BugName(options.bug));
  return absl::StrFormat("dslide_simulate --seeds 1 --first-seed %d --trace%s", seed, bug);
}

void RunSeed(const Options& options, uint64_t seed, Sums& sums) {
  Settings settings = SettingsOf(seed);
  settings.bug = options.bug;
  settings.print_trace = options.trace;
  const Outcome outcome = Simulate(settings);
  ++sums.seeds;
  ++sums.modes[std::string(shard::DurabilityName(settings.mode))];
  for (size_t fault = 0; fault < kNumFaults; ++fault) sums.faults[fault] += outcome.faults[fault];
  sums.updates += outcome.updates;
  sums.events += outcome.events;
  if (!outcome.violations.empty()) {
    const std::string line = absl::StrFormat("seed %d (%s): %s; repeat it: %s", seed,
                                             shard::DurabilityName(settings.mode),
                                             outcome.violations.front(), Repetition(options, seed));
    absl::FPrintF(stderr, "%s\n", line);
    if (sums.violations++ < kMostShown) sums.shown.push_back(line);
  }
  if (seed % kRepeatEvery != 0) return;
  ++sums.repeated;
  settings.print_trace = false;
  if (Simulate(settings).trace_hash == outcome.trace_hash) return;
  ++sums.trace_hash_mismatches;
  absl::FPrintF(stderr, "seed %d went two ways: %s\n", seed, Repetition(options, seed));
}

void Print(const Options& options, const Sums& sums, double seconds) {
  nlohmann::ordered_json faults;
  for (size_t fault = 0; fault < kNumFaults; ++fault) {
    faults[std::string(FaultName(static_cast<Fault>(fault)))] = sums.faults[fault];
  }
  const nlohmann::ordered_json result = {{"first_seed", options.first_seed},
                                         {"seeds", sums.seeds},
                                         {"violations", sums.violations},
                                         {"repeated", sums.repeated},
                                         {"trace_hash_mismatches", sums.trace_hash_mismatches},
                                         {"modes", sums.modes},
                                         {"updates", sums.updates},
                                         {"events", sums.events},
                                         {"faults", std::move(faults)},
                                         {"shown", sums.shown},
                                         {"seconds", seconds}};
  std::printf("%s\n", options.json ? result.dump().c_str() : result.dump(2).c_str());
}

int Main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, options)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  // What the product says in a run that breaks it on purpose is of interest to those who trace it.
  SetMinLogLevel(options.trace ? LogLevel::kInfo : kNoLog);
  const absl::Duration start = SteadyClock().Now();
  Sums sums;
  for (uint64_t seed = options.first_seed; seed < options.first_seed + options.seeds; ++seed) {
    RunSeed(options, seed, sums);
  }
  Print(options, sums, absl::ToDoubleSeconds(SteadyClock().Now() - start));
  return sums.violations == 0 && sums.trace_hash_mismatches == 0 ? 0 : 1;
}

}  // namespace
}  // namespace dslide::simulation

int main(int argc, char** argv) { return dslide::simulation::Main(argc, argv); }
