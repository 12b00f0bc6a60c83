// What an operator wants to know, in one piece.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "services/coordinator/checkpoints/checkpoint_figures.h"
#include "services/coordinator/jobs/job_table.h"
#include "services/coordinator/membership/membership.h"

namespace dslide::coordinator {

struct CheckpointStatus {
  CheckpointFigures::View figures;
  absl::Duration interval;        // zero: only by hand
  absl::Duration scrub_interval;  // zero: off
};

struct ClusterStatus {
  uint64_t topology_version = 0;
  int64_t expected_shards = 0;
  std::vector<ShardInfo> shards;
  std::vector<std::string> models;
  std::vector<JobView> jobs;
  uint64_t restore_count = 0;
  std::optional<CheckpointStatus> checkpoints = {};  // nothing without a data directory
};

}  // namespace dslide::coordinator
