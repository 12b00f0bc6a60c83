// What clients learn from the coordinator, without its wire form.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/ids.h"
#include "core/partition/slot_map.h"
#include "core/protocol/job_work.h"
#include "core/protocol/shard_info.h"

namespace dslide {

struct ClusterMap {
  uint64_t topology_version = 0;
  uint64_t restore_count = 0;     // changes when the cluster was restored from a checkpoint
  std::vector<ShardInfo> shards;  // by ordinal: shards[i].shard == i
  std::vector<SlotMap> slots;     // as they were asked for
};

// A committed checkpoint of a whole cluster.
struct ClusterCheckpoint {
  struct Part {
    ShardId shard = ShardId(0);
    uint64_t generation = 0;
    int64_t rows = 0;
    int64_t files = 0;
    int64_t bytes = 0;
    uint32_t files_checksum = 0;      // of the list of its files
    uint64_t base_checkpoint_id = 0;  // that it was built on by links; 0: all rows were written
    int64_t written_bytes = 0;        // of `bytes`, for this one
  };
  uint64_t checkpoint_id = 0;
  absl::Time created;
  uint64_t topology_version = 0;
  std::vector<Part> parts;
  std::vector<std::string> models;
  std::vector<std::string> jobs;
  int64_t clients = 0;  // whose steps are in it up to one number on every shard
  int64_t evicted = 0;  // that did not finish theirs
  absl::Duration stall;
  absl::Duration duration;
  std::string damage;  // what the last verification found wrong with it; "": nothing

  int64_t rows() const;
  int64_t bytes() const;
  int64_t written_bytes() const;
  // "full" when every shard wrote all rows, "incremental" when none did, "mixed" otherwise.
  const char* kind() const;
};

struct JobProgress {
  std::string job;
  std::string model;
  int64_t epoch = 0;  // being trained, from 0
  int64_t max_epochs = 0;
  int64_t samples_done = 0;  // of this epoch
  int64_t samples_per_epoch = 0;
  int64_t trainers = 0;
  bool finished = false;
  int64_t best_epoch = -1;  // -1 before the first evaluation
  double best_metric = 0;
};

// Cluster checkpoints as far as the coordinator knows; since it was started.
struct CheckpointStatus {
  uint64_t last_checkpoint_id = 0;  // 0: none taken yet
  absl::Duration age;               // of that one, or of the process
  absl::Duration interval;          // of the schedule; zero: only by hand
  int64_t failures = 0;
  absl::Duration scrub_age;
  absl::Duration scrub_interval;  // zero: off
};

// Long work of the coordinator, as far as it is.
struct OperationStatus {
  std::string operation_id;
  std::string kind;    // "create-cluster-checkpoint"
  std::string target;  // what it is done to; may be empty
  bool done = false;
  bool cancel_requested = false;
  absl::Duration elapsed;
  // While it runs: what is being done, by how many shards, and how many have ended it; 0 of 0 where
  // none is counted.
  std::string stage;
  int64_t shards_done = 0;
  int64_t shards = 0;
};

// What a call does while it waits for an operation, about four times a second.
struct OperationWatch {
  std::function<void(const OperationStatus&)> on_progress = nullptr;
  // True: the operation is cancelled, and the call returns what came of it: Cancelled, or its
  // result where it was too late.
  std::function<bool()> stop_requested = nullptr;
};

struct ClusterStatus {
  std::string version;
  std::string revision;
  uint64_t topology_version = 0;
  int64_t expected_shards = 0;
  std::vector<ShardInfo> shards;
  std::vector<std::string> models;
  std::vector<JobProgress> jobs;
  std::vector<OperationStatus> operations;      // that run, the newest first
  uint64_t restore_count = 0;                   // how often it was taken back to a checkpoint
  std::optional<CheckpointStatus> checkpoints;  // nothing without a data directory there
};

// What a cluster was taken back to.
struct RestoredCheckpoint {
  uint64_t checkpoint_id = 0;
  std::vector<uint64_t> skipped;  // newer ones that are known to be damaged
};

}  // namespace dslide
