#include "tests/simulation/bugs.h"

#include <array>
#include <cstddef>

namespace dslide::simulation {
namespace {

constexpr std::array<absl::string_view, 12> kNames = {
    "",
    "ack-before-sync",
    "dedup-lost-at-restart",
    "torn-record-accepted",
    "cut-without-holding",
    "part-without-copies",
    "sync-retried",
    "commit-before-parts",
    "cut-without-rows",
    "restore-forgotten",
    "jobs-forgotten",
    "greets-too-early",
};

}  // namespace

absl::string_view BugName(Bug bug) { return kNames[static_cast<size_t>(bug)]; }

std::optional<Bug> BugOfName(absl::string_view name) {
  for (size_t i = 1; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Bug>(i);
  }
  return std::nullopt;
}

}  // namespace dslide::simulation
