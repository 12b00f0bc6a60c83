// What a training job is, and how far it has come: what its trainers agree on, and what outlives
// the coordinator's process.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace dslide::coordinator {

// What all trainers of a job agree on; see JobSpec in protos/dslide/v1/coordinator.proto.
struct JobSpec {
  std::string job;                // [a-z0-9-]{1,64}
  std::string model;              // [a-z0-9-]{1,64}
  int64_t samples_per_epoch = 0;  // [1, 2^40]
  int64_t chunk_samples = 0;      // >= 1; at most kMaxChunks chunks in an epoch
  int64_t max_epochs = 0;         // [1, 1000000]; staged: [0, 1000000]
  int64_t patience_epochs = 0;    // 0: never stop early
  bool evaluate = false;
  uint64_t seed = 0;
  uint64_t data_fingerprint = 0;
  bool staged = false;  // one trainer prepares before the first epoch, one completes after the last

  int64_t NumChunks() const { return (samples_per_epoch + chunk_samples - 1) / chunk_samples; }

  // Errors: InvalidArgument naming the field, the value and the range.
  absl::Status Validate() const;

  friend bool operator==(const JobSpec&, const JobSpec&) = default;
};

inline constexpr int64_t kMaxChunks = 1 << 22;

enum class JobStage { kPreparation, kTraining, kCompletion };
// "preparation", "training", "completion".
const char* JobStageName(JobStage stage);

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
