// The points of a search: those that models are judged by, those that each model fits its fusion
// on, and those that it is trained on.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/engine/data/epoch_order.h"
#include "core/spec/model_spec.h"

namespace dslide::cli {

// Points that models are judged by, at most: with so many the difference of two models is known to
// about .003, and judging takes little beside training.
inline constexpr int64_t kMostJudgedPoints = 2000;

// A fusion that was fitted on the points that judge it would flatter itself: the parts are apart.
// With groups, no group is in more than one of judged, fitted and training points.
struct TuningSplit {
  std::vector<int64_t> judged;    // ascending; in no model's data
  std::vector<int64_t> fitted;    // ascending; held out by each model in its training
  std::vector<int64_t> training;  // in an order drawn from the seed

  // What a model is trained from: the first `count` of the training points and the fitted ones,
  // ascending. Requires count <= training.size().
  std::vector<int64_t> PointsWith(int64_t count) const;
  // Which of them are held out. points: of PointsWith().
  TrainingSplit SplitOf(absl::Span<const int64_t> points) const;
};

// Judged and fitted points are each the part of all that the training says. A pure function.
//   groups : [num_points], or empty: each point is a group of its own.
// Errors: InvalidArgument when nothing would be left to judge by, to fit on or to train.
absl::StatusOr<TuningSplit> SplitForTuning(int64_t num_points, absl::Span<const uint32_t> groups,
                                           uint64_t seed, const TrainingSpec& training);

}  // namespace dslide::cli
