// What trainers of a job agree on, and the work that they are given.

#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "core/base/ids.h"
#include "core/spec/model_spec.h"

namespace dslide {

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
  TrainingSpec training = {};         // equal but for in_flight_steps
  std::vector<TableRate> rates = {};  // of the tables of floats

  int64_t NumChunks() const { return (samples_per_epoch + chunk_samples - 1) / chunk_samples; }

  friend bool operator==(const JobSpec&, const JobSpec&) = default;
};

enum class JobStage { kPreparation, kTraining, kCompletion };
// "preparation", "training", "completion".
const char* JobStageName(JobStage stage);

// The checkpoint of the model that holds the rows of a job's best epoch: "best-" and the job; of
// one with more than 59 letters its first 50, "-" and the FNV-1a of the job in 8 hexadecimal
// digits.
inline constexpr char kBestCheckpointPrefix[] = "best-";
std::string BestCheckpointOf(const std::string& job);

using LeaseId = uint64_t;

// A lease that is done. Chunks fill loss_sum and samples, evaluations metric (larger is better),
// completions best_restored, preparations nothing.
struct LeaseReport {
  LeaseId lease = 0;
  double loss_sum = 0.0;
  int64_t samples = 0;
  double metric = 0.0;
  bool best_restored = false;  // the rows of the best epoch
};

struct WorkRequest {
  std::string job = {};
  ClientId client = {};
  std::vector<LeaseReport> finished = {};
  std::vector<LeaseId> held = {};  // still being worked on: renewed
  bool want_work = true;
};

// Points [first, first + count) of the epoch's order.
struct ChunkWork {
  LeaseId lease = 0;
  int64_t epoch = 0;
  int64_t first = 0;
  int64_t count = 0;
  friend bool operator==(const ChunkWork&, const ChunkWork&) = default;
};
struct EvaluationWork {
  LeaseId lease = 0;
  int64_t epoch = 0;
  double metric_to_beat = -std::numeric_limits<double>::infinity();
};
struct StageWork {
  LeaseId lease = 0;
  JobStage stage = JobStage::kPreparation;  // or kCompletion
  int64_t best_epoch = -1;                  // whose rows are to be restored; -1: none
  double best_metric = 0.0;
};
struct WaitForWork {
  absl::Duration pause;
};
struct NoMoreWork {
  int64_t best_epoch = -1;  // -1: nothing was evaluated
  double best_metric = 0.0;
  bool best_restored = false;  // the model had the rows of that epoch when the job ended
  bool cancelled = false;      // before its last epoch
};
// Empty (monostate) when no work was asked for and the job goes on.
using Work =
    std::variant<std::monostate, ChunkWork, EvaluationWork, StageWork, WaitForWork, NoMoreWork>;

}  // namespace dslide
