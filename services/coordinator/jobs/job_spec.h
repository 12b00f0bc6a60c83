// How far a training job has come: what outlives the coordinator's process.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/protocol/job_work.h"

namespace dslide::coordinator {

// Errors: InvalidArgument naming the field, the value and the range.
absl::Status ValidateJobSpec(const JobSpec& spec);

inline constexpr int64_t kMaxChunks = 1 << 22;

// What outlives a job's process, and what a cluster checkpoint keeps of it: leases do not.
struct JobRecord {
  struct Range {
    int64_t first = 0;
    int64_t count = 0;
    friend bool operator==(const Range&, const Range&) = default;
  };
  JobSpec spec;
  int64_t epoch = 0;
  JobStage stage = JobStage::kTraining;
  bool finished = false;
  std::vector<Range> done;  // chunks of this epoch that are trained, ascending
  int64_t best_epoch = -1;
  double best_metric = 0.0;
  int64_t epochs_without_better = 0;
  friend bool operator==(const JobRecord&, const JobRecord&) = default;
};

}  // namespace dslide::coordinator
