#include "tests/simulation/fault_counts.h"

namespace dslide::simulation {

absl::string_view FaultName(Fault fault) {
  static constexpr std::array<absl::string_view, kNumFaults> kNames = {
      "delay",
      "reorder",
      "lost_request",
      "lost_reply",
      "duplicate_request",
      "partition",
      "one_way_partition",
      "partitioned_message",
      "shard_kill",
      "shard_power_loss",
      "lost_unsynced",
      "torn_record",
      "disk_full",
      "sync_failed",
      "shard_replaced",
      "shard_pause",
      "coordinator_kill",
      "coordinator_pause",
      "client_kill",
      "client_pause",
      "kill_at_freeze",
      "kill_at_admit",
      "kill_at_cut",
      "kill_at_write",
      "kill_before_commit",
      "kill_after_commit",
      "kill_at_restore",
      "operator_restore",
      "operator_cancel",
  };
  return kNames[static_cast<size_t>(fault)];
}

}  // namespace dslide::simulation
