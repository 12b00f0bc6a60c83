#include "services/shard/durability/durability.h"

#include "absl/strings/str_cat.h"

namespace dslide::shard {
namespace {

constexpr Durability kModes[] = {Durability::kCheckpoint, Durability::kLogPeriodic,
                                 Durability::kLog};

}  // namespace

std::string DurabilityName(Durability mode) {
  switch (mode) {
    case Durability::kCheckpoint:
      return "checkpoint";
    case Durability::kLogPeriodic:
      return "log-periodic";
    case Durability::kLog:
      return "log";
  }
  return "unknown";
}

absl::StatusOr<Durability> ParseDurability(absl::string_view name) {
  for (const Durability mode : kModes) {
    if (DurabilityName(mode) == name) return mode;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("durability is \"", name, "\", must be checkpoint, log-periodic or log"));
}

}  // namespace dslide::shard
