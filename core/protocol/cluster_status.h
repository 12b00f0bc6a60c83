// What a coordinator says of its cluster, its jobs, operations and cluster checkpoints.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/ids.h"
#include "core/protocol/cluster_map.h"

namespace dslide {

// A point of a job's curves.
struct EpochResult {
  int64_t epoch = 0;                            // from 0
  std::optional<double> loss = std::nullopt;    // mean over the samples whose reports were seen
  std::optional<double> metric = std::nullopt;  // where it was evaluated
  std::optional<double> samples_per_second = std::nullopt;  // of all trainers; where it was seen
  friend bool operator==(const EpochResult&, const EpochResult&) = default;
};

struct JobStatus {
  std::string job = {};
  std::string model = {};
  int64_t epoch = 0;  // being trained, from 0; max_epochs at most
  int64_t max_epochs = 0;
  int64_t samples_done = 0;  // of this epoch
  int64_t samples_per_epoch = 0;
  int64_t trainers = 0;  // heard of within the lease timeout
  bool finished = false;
  bool cancelled = false;   // before its last epoch; it is finished, too
  int64_t best_epoch = -1;  // -1 before the first evaluation
  double best_metric = 0.0;
  double samples_per_second = 0.0;  // of all trainers; 0: not known, or none trains
  // Mean of this epoch so far, or of the one before; none before the first report.
  std::optional<double> loss = std::nullopt;
  std::vector<EpochResult> epochs = {};  // ascending; of long jobs some of them

  // Until max_epochs, without evaluations; none while the pace is not known. Early stopping ends
  // sooner.
  std::optional<absl::Duration> time_left() const;
  // The metric of the last epoch that was evaluated.
  std::optional<double> last_metric() const;
  // "epoch 3/14", "finished" or "cancelled".
  std::string state() const;
};

// Long work of the coordinator, as far as it is.
struct OperationStatus {
  std::string operation_id = {};
  std::string kind = {};    // "create-cluster-checkpoint"
  std::string target = {};  // what it is done to, for people; may be empty
  bool done = false;
  bool cancel_requested = false;
  absl::Duration elapsed = {};  // until now, or its end
  // While it runs: what is being done, by how many shards, and how many have ended it; 0 of 0 where
  // none is counted.
  std::string stage = {};
  int64_t shards_done = 0;
  int64_t shards = 0;
};

// What one shard holds of a cluster checkpoint.
struct CheckpointPart {
  ShardId shard = ShardId(0);
  uint64_t generation = 0;
  int64_t rows = 0;
  int64_t files = 0;
  int64_t bytes = 0;
  uint32_t files_checksum = 0;  // of the list of the part's files
  // The checkpoint that the part was built on by links; 0: none, all rows were written.
  uint64_t base_checkpoint_id = 0;
  // The one at the end of that chain, and how many were built on it, one on the other, with this.
  // The coordinator's: not in messages.
  uint64_t full_checkpoint_id = 0;
  int64_t increments = 0;
  int64_t written_bytes = 0;  // of `bytes`, for this one
};

// A committed checkpoint of a whole cluster.
struct ClusterCheckpoint {
  uint64_t checkpoint_id = 0;
  absl::Time created = {};  // for people, to the millisecond
  uint64_t topology_version = 0;
  std::vector<CheckpointPart> parts = {};  // by shard
  std::vector<std::string> models = {};
  std::vector<std::string> jobs = {};
  int64_t clients = 0;                 // whose steps are in it up to one number on every shard
  std::vector<ClientId> evicted = {};  // that did not finish theirs
  absl::Duration stall = {};     // the longest that requests had to wait for the cut of a shard
  absl::Duration duration = {};  // until all parts were prepared
  std::string damage = {};       // what the last verification found wrong with it; "": nothing

  int64_t rows() const;
  int64_t bytes() const;
  int64_t written_bytes() const;
  // "full" when every shard wrote all rows, "incremental" when none did, "mixed" otherwise.
  const char* kind() const;
};

// Cluster checkpoints as far as the coordinator knows; since it was started.
struct CheckpointStatus {
  uint64_t last_checkpoint_id = 0;  // committed by this process; 0: none yet
  absl::Duration age;               // since that one, or the start
  absl::Duration interval;          // of the schedule; zero: only by hand
  int64_t failures = 0;             // begun and not committed
  absl::Duration scrub_age;         // since all were last verified, or the start
  absl::Duration scrub_interval;    // zero: off
};

struct ClusterStatus {
  std::string version = {};
  std::string revision = {};
  uint64_t topology_version = 0;
  int64_t expected_shards = 0;
  std::vector<ShardInfo> shards = {};
  std::vector<std::string> models = {};
  std::vector<JobStatus> jobs = {};
  std::vector<OperationStatus> operations = {};      // that run, the newest first
  uint64_t restore_count = 0;                        // how often it was taken back to a checkpoint
  std::optional<CheckpointStatus> checkpoints = {};  // nothing without a data directory there
};

}  // namespace dslide
