// What a simulation does to its cluster, and how often it did.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace dslide::simulation {

enum class Fault {
  kDelay,             // a message that takes much longer than its neighbours
  kReorder,           // a call that overtakes an earlier one
  kLostRequest,       // with its connection
  kLostReply,         // the request was applied
  kDuplicateRequest,  // the same mutation twice on its way
  kPartition,         // both directions
  kOneWayPartition,
  kPartitionedMessage,
  kShardKill,       // what was written stays
  kShardPowerLoss,  // what was not synced is gone
  kLostUnsynced,    // log records that a loss of power has taken
  kTornRecord,      // a log that ends within a record
  kDiskFull,        // a log record or a part that found no room
  kSyncFailed,
  kShardReplaced,  // another process takes over while the old one still answers
  kShardPause,
  kCoordinatorKill,
  kCoordinatorPause,
  kClientKill,
  kClientPause,
  kKillAtFreeze,  // of a shard or the coordinator
  kKillAtAdmit,
  kKillAtCut,
  kKillAtWrite,
  kKillBeforeCommit,  // of the manifest
  kKillAfterCommit,
  kKillAtRestore,
  kOperatorRestore,
  kOperatorCancel,  // of a checkpoint or a restore, at any moment
  kCount,
};

inline constexpr size_t kNumFaults = static_cast<size_t>(Fault::kCount);

// As JSON has it.
absl::string_view FaultName(Fault fault);

using FaultCounts = std::array<int64_t, kNumFaults>;

}  // namespace dslide::simulation
