// How a job gets on: its pace, and the curves of its epochs. For people: no decision needs it.

#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "core/protocol/cluster_status.h"

namespace dslide::coordinator {

// Not thread-safe. `now` never goes back.
class JobProgress {
 public:
  // Points of the curve that are kept. Beyond it every second one is left out, but for the last:
  // the curve of a long job is coarser.
  static constexpr size_t kMaxPoints = 64;

  // A chunk of the epoch being trained was leased.
  void OnLease(absl::Duration now);
  // One was reported.
  void OnChunk(int64_t samples, double loss_sum, absl::Duration now);
  // The epoch is over. metric: none where it was not evaluated.
  void EndEpoch(int64_t epoch, std::optional<double> metric);
  // Goes back to the curve of a record.
  void Restore(std::vector<EpochResult> epochs);

  // Mean of the reported samples of this epoch, or before the first one of the last epoch; none
  // before any.
  std::optional<double> loss() const;
  // Over the last chunks, of all trainers; 0 while it is not known. It falls while none is
  // reported.
  double SamplesPerSecond(absl::Duration now) const;
  const std::vector<EpochResult>& epochs() const { return epochs_; }

 private:
  struct Report {
    absl::Duration when;
    int64_t samples = 0;
  };
  std::optional<double> MeanLoss() const;
  std::optional<double> EpochPace() const;

  std::deque<Report> reports_;
  // Whether this process has seen all of this epoch.
  bool whole_epoch_ = true;
  std::optional<absl::Duration> first_lease_;  // of this epoch
  absl::Duration last_report_;
  double loss_sum_ = 0.0;
  int64_t samples_ = 0;
  std::vector<EpochResult> epochs_;
};

}  // namespace dslide::coordinator
