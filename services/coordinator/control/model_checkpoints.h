// Named checkpoints of one model, on all shards.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/coordinator/control/cluster_registry.h"
#include "services/coordinator/jobs/job_table.h"
#include "services/coordinator/membership/shard_admin.h"
#include "services/coordinator/tasks/work_progress.h"

namespace dslide::coordinator {

// Errors name the shards that failed. Once shards are asked, they go on. One caller at a time
// (Exclusive).
class ModelCheckpoints {
 public:
  // What is passed outlives it.
  ModelCheckpoints(const ClusterRegistry* registry, const JobTable* jobs, ShardAdmin* shards)
      : registry_(registry), jobs_(jobs), shards_(shards) {}

  // Whether there may be one. Errors: InvalidArgument BAD_NAME; NotFound UNKNOWN_MODEL.
  static absl::Status Check(const ClusterRegistry& registry, const std::string& model,
                            const std::string& checkpoint);
  // timeout: of each shard. One that holds a job's best epoch takes the place of those of jobs of
  // the model that have ended.
  absl::StatusOr<CheckpointSize> Create(const std::string& model, const std::string& checkpoint,
                                        absl::Duration timeout, WorkProgress& progress);
  // Returns the rows restored. After an error some shards may have restored: repeat it.
  absl::StatusOr<int64_t> Restore(const std::string& model, const std::string& checkpoint,
                                  absl::Duration timeout, WorkProgress& progress);

 private:
  // Those that stay beside a checkpoint; none where that is not of a job's best epoch.
  std::vector<std::string> BestKept(const std::string& model, const std::string& checkpoint) const;

  const ClusterRegistry* const registry_;
  const JobTable* const jobs_;
  ShardAdmin* const shards_;
};

}  // namespace dslide::coordinator
