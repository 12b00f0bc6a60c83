#include "core/protocol/cluster_status.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace dslide {
namespace {

int64_t Sum(const std::vector<CheckpointPart>& parts, int64_t CheckpointPart::*figure) {
  int64_t sum = 0;
  for (const CheckpointPart& part : parts) sum += part.*figure;
  return sum;
}

}  // namespace

std::optional<absl::Duration> JobStatus::time_left() const {
  if (finished) return absl::ZeroDuration();
  if (samples_per_second <= 0.0) return std::nullopt;
  const auto left = static_cast<double>((max_epochs - epoch) * samples_per_epoch - samples_done);
  return absl::Seconds(left / samples_per_second);
}

std::optional<double> JobStatus::last_metric() const {
  for (auto result = epochs.rbegin(); result != epochs.rend(); ++result) {
    if (result->metric.has_value()) return result->metric;
  }
  return std::nullopt;
}

std::string JobStatus::state() const {
  if (cancelled) return "cancelled";
  return finished ? "finished" : absl::StrCat("epoch ", epoch + 1, "/", max_epochs);
}

int64_t ClusterCheckpoint::rows() const { return Sum(parts, &CheckpointPart::rows); }
int64_t ClusterCheckpoint::bytes() const { return Sum(parts, &CheckpointPart::bytes); }
int64_t ClusterCheckpoint::written_bytes() const {
  return Sum(parts, &CheckpointPart::written_bytes);
}

const char* ClusterCheckpoint::kind() const {
  const auto full = std::count_if(parts.begin(), parts.end(), [](const CheckpointPart& part) {
    return part.base_checkpoint_id == 0;
  });
  if (full == static_cast<int64_t>(parts.size())) return "full";
  return full == 0 ? "incremental" : "mixed";
}

}  // namespace dslide
