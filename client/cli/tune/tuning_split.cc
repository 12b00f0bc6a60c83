#include "client/cli/tune/tuning_split.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"
#include "core/engine/data/group_split.h"

namespace dslide::cli {
namespace {

// Parts of the seed.
constexpr uint64_t kJudgedKey = 0x6a7564676564;
constexpr uint64_t kOrderKey = 0x6f72646572;

}  // namespace

std::vector<int64_t> TuningSplit::PointsWith(int64_t count) const {
  std::vector<int64_t> points(training.begin(), training.begin() + count);
  points.insert(points.end(), fitted.begin(), fitted.end());
  std::sort(points.begin(), points.end());
  return points;
}

TrainingSplit TuningSplit::SplitOf(absl::Span<const int64_t> points) const {
  std::vector<uint8_t> held_out;
  held_out.reserve(points.size());
  for (const int64_t point : points) {
    held_out.push_back(std::binary_search(fitted.begin(), fitted.end(), point) ? 1 : 0);
  }
  return TrainingSplit::FromHeldOut(held_out);
}

absl::StatusOr<TuningSplit> SplitForTuning(int64_t num_points, absl::Span<const uint32_t> groups,
                                           uint64_t seed, const TrainingSpec& training) {
  std::vector<uint32_t> alone;
  if (groups.empty()) {
    alone.resize(static_cast<size_t>(num_points));
    std::iota(alone.begin(), alone.end(), 0U);
    groups = alone;
  }
  TuningSplit split;
  const std::vector<uint8_t> judged = HoldOutGroups(
      groups, DeriveKey(seed, kJudgedKey), training.validation_fraction, kMostJudgedPoints);
  std::vector<int64_t> rest;
  std::vector<uint32_t> rest_groups;
  for (int64_t point = 0; point < num_points; ++point) {
    const auto at = static_cast<size_t>(point);
    (judged[at] != 0 ? split.judged : rest).push_back(point);
    if (judged[at] == 0) rest_groups.push_back(groups[at]);
  }
  const std::vector<uint8_t> fitted = HoldOutGroups(rest_groups, seed, training.validation_fraction,
                                                    training.validation_max_samples);
  std::vector<int64_t> left;
  for (size_t i = 0; i < rest.size(); ++i) {
    (fitted[i] != 0 ? split.fitted : left).push_back(rest[i]);
  }
  if (split.judged.empty() || split.fitted.empty() || left.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "of ", num_points, " points, ", training.validation_fraction,
        " is to judge the models by and as much to fit them on, which leaves ", split.judged.size(),
        " and ", split.fitted.size(), " points",
        alone.empty() ? " in whole groups: a search needs smaller groups, or more points"
                      : ": a search needs more points"));
  }
  const IndexPermutation order(static_cast<int64_t>(left.size()), DeriveKey(seed, kOrderKey));
  for (int64_t i = 0; i < order.size(); ++i) {
    split.training.push_back(left[static_cast<size_t>(order.Map(i))]);
  }
  return split;
}

}  // namespace dslide::cli
