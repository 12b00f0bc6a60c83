#include "services/coordinator/jobs/job_progress.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dslide::coordinator {
namespace {

// Reports that a pace is taken from.
constexpr size_t kPaceReports = 32;

}  // namespace

void JobProgress::OnLease(absl::Duration now) {
  if (!first_lease_.has_value()) first_lease_ = now;
}

void JobProgress::OnChunk(int64_t samples, double loss_sum, absl::Duration now) {
  reports_.push_back({now, samples});
  if (reports_.size() > kPaceReports) reports_.pop_front();
  // A diverged chunk stays visible in the curve of its epoch alone.
  loss_sum_ += loss_sum;
  samples_ += samples;
  last_report_ = now;
}

void JobProgress::EndEpoch(int64_t epoch, std::optional<double> metric) {
  if (epochs_.size() >= kMaxPoints) {
    std::vector<EpochResult> kept;
    for (size_t i = 0; i < epochs_.size(); i += 2) kept.push_back(epochs_[i]);
    epochs_ = std::move(kept);
  }
  epochs_.push_back(
      {.epoch = epoch, .loss = MeanLoss(), .metric = metric, .samples_per_second = EpochPace()});
  whole_epoch_ = true;
  first_lease_.reset();
  loss_sum_ = 0.0;
  samples_ = 0;
}

void JobProgress::Restore(std::vector<EpochResult> epochs) {
  *this = JobProgress();
  whole_epoch_ = false;
  epochs_ = std::move(epochs);
}

std::optional<double> JobProgress::loss() const {
  if (samples_ == 0 && !epochs_.empty()) return epochs_.back().loss;
  return MeanLoss();
}

std::optional<double> JobProgress::MeanLoss() const {
  if (samples_ == 0 || !std::isfinite(loss_sum_)) return std::nullopt;
  return loss_sum_ / static_cast<double>(samples_);
}

std::optional<double> JobProgress::EpochPace() const {
  if (samples_ == 0 || !whole_epoch_ || !first_lease_.has_value()) return std::nullopt;
  const double seconds = absl::ToDoubleSeconds(last_report_ - *first_lease_);
  if (seconds <= 0.0) return std::nullopt;
  return static_cast<double>(samples_) / seconds;
}

double JobProgress::SamplesPerSecond(absl::Duration now) const {
  if (reports_.size() < 2) return 0.0;
  int64_t samples = 0;
  for (size_t i = 1; i < reports_.size(); ++i) samples += reports_[i].samples;
  const absl::Duration busy = reports_.back().when - reports_.front().when;
  const absl::Duration gap = busy / static_cast<double>(reports_.size() - 1);
  // Chunks come in bursts: only a silence beyond the usual one counts.
  const absl::Duration silent = now - reports_.back().when - 2 * gap;
  const double seconds = absl::ToDoubleSeconds(busy + std::max(silent, absl::ZeroDuration()));
  return seconds > 0.0 ? static_cast<double>(samples) / seconds : 0.0;
}

}  // namespace dslide::coordinator
