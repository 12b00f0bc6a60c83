// The propensity of a label: how likely it is that a point which deserves the label also carries
// it. Rare labels are missed most. Metrics that weigh a hit by 1 / propensity reward naming them.
//
// With N training points, N_l of them with label l (Jain, Prabhu, Varma: Extreme Multi-label Loss
// Functions, KDD 2016, doi 10.1145/2939672.2939756):
//
//   1 / p_l = 1 + C (N_l + B)^-A,   C = (ln N - 1) (B + 1)^A

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace dslide {

// The two constants. The Extreme Classification Repository uses the defaults, except A = 0.6,
// B = 2.6 for the Amazon sets and A = 0.5, B = 0.4 for the Wikipedia ones.
struct PropensityModel {
  double a = 0.55;  // finite, > 0
  double b = 1.5;   // finite, > 0

  // Errors: InvalidArgument naming the constant, its value and its range.
  absl::Status Validate() const;
};

// 1 / p_l of each label, [labels], all at least 1.
//
//   label_counts : [labels] training points with the label, each >= 0.
//   points       : training points, >= 1. With fewer than 3, where C would be negative, C is 0.
//
// Requires a valid model.
std::vector<float> InversePropensities(absl::Span<const int64_t> label_counts, int64_t points,
                                       const PropensityModel& model);

// What the targets of labels are multiplied by in training, [labels]: inverse propensities to the
// power `strength`, divided by their mean over the labels of all points, so that the learning rate
// keeps its meaning.
std::vector<float> PropensityWeights(absl::Span<const int64_t> label_counts, int64_t points,
                                     const PropensityModel& model, double strength);

}  // namespace dslide
