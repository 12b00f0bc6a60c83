// dslide_tracer: one Tracer as a process, which says as lines of JSON how far it is.

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/interrupt.h"
#include "client/cpp/channel_factory.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "tests/tracer/tracer.h"

namespace dslide {
namespace {

constexpr char kUsage[] =
    "usage: dslide_tracer --cluster HOST:PORT --model NAME [--in-flight N] [--pause-ms N]\n"
    "                     [--timeout-seconds N]\n"
    "\n"
    "Adds 1 to every number of the model's rows, step after step, until SIGTERM or an error.\n"
    "stdout has lines of JSON:\n"
    "  {\"event\": \"started\", \"client\": HEX, \"counts\": [what each shard's rows show], ...}\n"
    "  {\"event\": \"progress\", \"finished\": N, \"sent\": N}\n"
    "  {\"event\": \"ended\", \"finished\": N, \"sent\": N, \"reason\": WORD, \"message\": TEXT}\n"
    "Exit codes: 0 stopped by a signal; 10 the cluster was taken back, or has retired this "
    "client:\n"
    "start another one; those of dslide for anything else.\n";
constexpr int kExitRolledBack = 10;
constexpr absl::Duration kReportPause = absl::Milliseconds(5);

struct Options {
  std::string cluster;
  TracerOptions tracer;
  int64_t pause_ms = 0;
  int64_t timeout_seconds = 30;
};

bool Parse(int argc, char** argv, Options& options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    const std::string value = argv[i + 1];
    if (flag == "--cluster") {
      options.cluster = value;
    } else if (flag == "--model") {
      options.tracer.model = value;
    } else if (flag == "--in-flight") {
      if (!absl::SimpleAtoi(value, &options.tracer.in_flight)) return false;
    } else if (flag == "--pause-ms") {
      if (!absl::SimpleAtoi(value, &options.pause_ms)) return false;
    } else if (flag == "--timeout-seconds") {
      if (!absl::SimpleAtoi(value, &options.timeout_seconds)) return false;
    } else {
      return false;
    }
  }
  options.tracer.pause = absl::Milliseconds(options.pause_ms);
  return argc % 2 == 1 && !options.cluster.empty() && options.tracer.in_flight >= 1 &&
         options.pause_ms >= 0 && options.timeout_seconds >= 1;
}

void Say(const nlohmann::ordered_json& line) {
  std::printf("%s\n", line.dump().c_str());
  // Whoever kills this process reads what it had said.
  std::fflush(stdout);
}

absl::StatusOr<std::unique_ptr<Tracer>> Start(const Options& options) {
  ClientOptions client;
  client.job = options.tracer.model;
  client.timeout = absl::Seconds(options.timeout_seconds);
  ASSIGN_OR_RETURN(auto cluster,
                   ClusterClient::Connect(options.cluster, NetworkChannels({}), client));
  return Tracer::Start(std::move(cluster), options.tracer);
}

// Words with which a cluster says that it is not the one that this client knew.
bool RolledBack(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  return reason == "CLOSED_CLIENT" || reason == "LOST_UPDATES" || reason == "UNKNOWN_CLIENT" ||
         reason == "UNKNOWN_MODEL";
}

int ReportEnd(const absl::Status& end, int64_t finished, int64_t sent) {
  Say({{"event", "ended"},
       {"finished", finished},
       {"sent", sent},
       {"reason", ReasonOf(end)},
       {"message", end.ToString()}});
  return RolledBack(end) ? kExitRolledBack : cli::ExitCodeOf(end);
}

int Trace(const Options& options) {
  const cli::InterruptGuard interrupts;
  absl::StatusOr<std::unique_ptr<Tracer>> started = Start(options);
  if (!started.ok()) return ReportEnd(started.status(), 0, 0);
  Tracer& tracer = **started;
  const ClientId& id = tracer.client();
  Say({{"event", "started"},
       {"client", absl::BytesToHexString({reinterpret_cast<const char*>(id.data()), id.size()})},
       {"model", options.tracer.model},
       {"in_flight", options.tracer.in_flight},
       {"counts", tracer.counts()}});
  int64_t said = 0;
  while (!tracer.ended() && !cli::InterruptGuard::Interrupted()) {
    // In this order: what is finished was sent.
    const int64_t finished = tracer.finished();
    const int64_t sent = tracer.sent();
    if (sent > said) Say({{"event", "progress"}, {"finished", finished}, {"sent", sent}});
    said = sent;
    absl::SleepFor(kReportPause);
  }
  // Its own end is told before it says goodbye to shards that may be gone.
  if (!tracer.ended()) tracer.Stop();
  return ReportEnd(tracer.end(), tracer.finished(), tracer.sent());
}

}  // namespace
}  // namespace dslide

int main(int argc, char** argv) {
  dslide::Options options;
  if (!dslide::Parse(argc, argv, options)) {
    std::fputs(dslide::kUsage, stderr);
    return dslide::cli::kExitUsage;
  }
  return dslide::Trace(options);
}
