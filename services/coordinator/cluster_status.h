// What an operator wants to know, in one piece.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "services/coordinator/job.h"
#include "services/coordinator/membership.h"

namespace dslide::coordinator {

struct JobView {
  JobSpec spec;
  JobProgress progress;
};

struct ClusterStatus {
  uint64_t topology_version = 0;
  int64_t expected_shards = 0;
  std::vector<ShardView> shards;
  std::vector<std::string> models;
  std::vector<JobView> jobs;
};

}  // namespace dslide::coordinator
