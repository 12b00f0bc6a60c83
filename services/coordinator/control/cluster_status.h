// What an operator wants to know, in one piece.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "services/coordinator/checkpoints/checkpoint_schedule.h"
#include "services/coordinator/jobs/job.h"
#include "services/coordinator/membership/membership.h"

namespace dslide::coordinator {

struct JobView {
  JobSpec spec;
  JobProgress progress;
};

// Cluster checkpoints as far as this process knows; times by its clock.
struct CheckpointFigures {
  uint64_t last_checkpoint_id = 0;  // committed by this process; 0: none yet
  absl::Duration last = {};         // when, or the start
  absl::Duration cost = {};         // of that one, from the freeze until it was committed
  absl::Duration stall = {};        // how long trainers stood still for it
  int64_t failures = 0;             // begun and not committed
  absl::Duration scrubbed = {};     // when all were last verified, or the start
  int64_t damaged = 0;              // committed ones that are marked
  // Committed by this process, and the bytes that shards wrote for them.
  struct Sum {
    int64_t checkpoints = 0;
    int64_t bytes = 0;
  };
  Sum full = {};         // where every shard wrote all rows
  Sum incremental = {};  // where some shard built on the one before
  CheckpointCosts costs;
};

struct CheckpointStatus {
  uint64_t last_checkpoint_id = 0;
  absl::Duration age;
  absl::Duration interval;  // zero: only by hand
  int64_t failures = 0;
  absl::Duration scrub_age;
  absl::Duration scrub_interval;  // zero: off
};

struct ClusterStatus {
  uint64_t topology_version = 0;
  int64_t expected_shards = 0;
  std::vector<ShardView> shards;
  std::vector<std::string> models;
  std::vector<JobView> jobs;
  uint64_t restore_count = 0;
  std::optional<CheckpointStatus> checkpoints = {};  // nothing without a data directory
};

}  // namespace dslide::coordinator
