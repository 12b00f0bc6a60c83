// How far a training job has come: what outlives the coordinator's process.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/protocol/cluster_status.h"
#include "core/protocol/job_work.h"

namespace dslide::coordinator {

// Errors: InvalidArgument naming the field, the value and the range.
absl::Status ValidateJobSpec(const JobSpec& spec);

inline constexpr int64_t kMaxChunks = 1 << 22;

// What a cluster checkpoint keeps of a job: leases are not of use to it.
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
  bool best_restored = false;            // by the completion
  bool cancelled = false;                // before its last epoch; then it is finished
  std::vector<EpochResult> epochs = {};  // see JobStatus
  friend bool operator==(const JobRecord&, const JobRecord&) = default;
};

// What the coordinator's store keeps of a job, for the next process.
struct JobState {
  struct Lease {
    LeaseId lease = 0;
    ClientId client = {};
    int64_t chunk = 0;  // or what Job has in place of one
    bool over = false;  // it ran out, and a report would still count
    friend bool operator==(const Lease&, const Lease&) = default;
  };
  uint64_t number = 0;  // by age
  JobRecord record;
  LeaseId next_lease = 1;
  std::vector<Lease> leases = {};  // ascending
  friend bool operator==(const JobState&, const JobState&) = default;
};

}  // namespace dslide::coordinator
