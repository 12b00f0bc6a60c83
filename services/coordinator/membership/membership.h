// Which shard processes exist, who owns which ordinal, and how the slots are dealt. A pure state
// machine: no threads, no network; the monotonic clock serves only to show health.
//
// An ordinal (0 .. expected - 1) is owned by one process at a time. Each taking-over mints a higher
// generation and fences the older owner for good. The weights that the slots are dealt by are
// settled when all ordinals are taken; the topology version names that deal. Later changes of a
// weight are refused while models exist, since rows would have to move.

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/partition/slot_map.h"
#include "core/protocol/cluster_map.h"

namespace dslide::coordinator {

struct MembershipOptions {
  int64_t expected_shards = 1;  // [1, kMaxShards]
  absl::Duration heartbeat_interval = absl::Seconds(1);
  // A shard that missed this many heartbeats is shown as lost.
  int missing_heartbeats = 3;
};

struct ShardRegistration {
  std::optional<ShardId> wanted;  // nothing: the next free ordinal
  std::string address;
  double capacity_weight = 1.0;
  std::string instance_id;    // 16 random bytes of the process
  std::string admin_address;  // as others reach it; may be empty
};

struct Ownership {
  ShardId shard;
  uint64_t generation = 0;
  bool is_new = false;  // false: this process had it already
  // Of the whole cluster, and the Coordinator's to say: it is to be taken back to a checkpoint, or
  // may be.
  bool rollback_pending = false;
};

// The answer to a shard's heartbeat.
struct HeartbeatAnswer {
  uint64_t topology_version = 0;
  bool rollback_pending = false;  // as above
};

// What outlives the coordinator's process.
struct MembershipRecord {
  struct Shard {
    int32_t shard = 0;
    std::string address;
    double capacity_weight = 1.0;
    uint64_t generation = 0;
    std::string instance_id;
    bool left = false;
    std::string admin_address;
    friend bool operator==(const Shard&, const Shard&) = default;
  };
  int64_t expected_shards = 0;
  uint64_t topology_version = 0;
  std::vector<double> dealt_weights;  // empty before the first deal
  std::vector<Shard> shards;
  friend bool operator==(const MembershipRecord&, const MembershipRecord&) = default;
};

// Not thread-safe. `clock` outlives it.
class Membership {
 public:
  Membership(MembershipOptions options, const Clock* clock);

  const MembershipOptions& options() const { return options_; }

  // Gives an ordinal to a process. `models_exist` forbids a change of weights.
  //
  // Without a wish, an ordinal is found: the one this address had before, else a never used one,
  // else one that was left, else one that is lost.
  //
  // Errors (nothing changes): InvalidArgument for a bad ordinal, address, weight or instance id;
  // FailedPrecondition FENCED for a process that was replaced or has left, CLUSTER_FULL when no
  // ordinal is free, ADDRESS_IN_USE when a living shard of another ordinal has the address,
  // WEIGHT_CHANGED.
  absl::StatusOr<Ownership> Register(const ShardRegistration& request, bool models_exist);

  // Errors: NotFound UNKNOWN_SHARD when nobody owns the ordinal or only an older generation does:
  // the shard must register again, with its instance id; FailedPrecondition FENCED when a newer one
  // does: it must stop.
  absl::Status Heartbeat(ShardId id, uint64_t generation, int64_t memory_bytes,
                         int64_t applied_commands);

  // The owner leaves. Repeating it is OK. Errors: those of Heartbeat.
  absl::Status Deregister(ShardId id, uint64_t generation);

  // All ordinals. Unavailable NOT_ALL_SHARDS, naming the missing ones and the remedy, while one was
  // never registered or its owner has left: nobody listens at the address of such a one. A shard
  // that is only lost stays in the map, for it may be slow.
  absl::StatusOr<ClusterMap> Map() const;

  // Those that were ever registered, by ordinal.
  std::vector<ShardInfo> Shards() const;

  uint64_t topology_version() const { return topology_version_; }

  MembershipRecord Record() const;
  // Takes the state of an earlier process; shards count as alive until heartbeats are missing.
  // Errors: FailedPrecondition when the record is of another number of shards and models exist.
  absl::Status Restore(const MembershipRecord& record, bool models_exist);

 private:
  struct Shard {
    std::string address;
    double capacity_weight = 1.0;
    uint64_t generation = 0;
    std::string instance_id;
    std::string admin_address;
    bool left = false;
    absl::Duration last_heartbeat;
    int64_t memory_bytes = 0;
    int64_t applied_commands = 0;
    double commands_per_second = 0.0;
    bool heard = false;  // a heartbeat of this generation
  };

  absl::Status CheckRegistration(const ShardRegistration& request) const;
  absl::StatusOr<ShardId> ChooseOrdinal(const ShardRegistration& request) const;
  ShardHealth HealthOf(const Shard& shard) const;
  ShardInfo ViewOf(ShardId id, const Shard& shard) const;
  // The owner's entry when `generation` is the current one.
  absl::StatusOr<Shard*> Owner(ShardId id, uint64_t generation);
  void Fence(const std::string& instance_id);
  // Settles the weights once all ordinals are taken.
  void Deal();

  const MembershipOptions options_;
  const Clock* const clock_;
  std::map<ShardId, Shard> shards_;
  // Generations that shards of an earlier coordinator told us about: ours must be higher.
  std::map<ShardId, uint64_t> generation_floor_;
  uint64_t topology_version_ = 0;
  std::vector<double> dealt_weights_;
  std::deque<std::string> fenced_;  // instance ids that may not come back, the newest last
};

}  // namespace dslide::coordinator
