#include "core/engine/eval/propensity.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace dslide {

absl::Status PropensityModel::Validate() const {
  for (const auto& [name, value] : {std::pair("A", a), std::pair("B", b)}) {
    if (std::isfinite(value) && value > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("propensity constant ", name, " = ", value, ": must be above 0 and finite"));
  }
  return absl::OkStatus();
}

std::vector<float> InversePropensities(absl::Span<const int64_t> label_counts, int64_t points,
                                       const PropensityModel& model) {
  const double c =
      std::max(0.0, std::log(static_cast<double>(points)) - 1) * std::pow(model.b + 1, model.a);
  std::vector<float> inverse;
  inverse.reserve(label_counts.size());
  for (const int64_t count : label_counts) {
    inverse.push_back(
        static_cast<float>(1 + c * std::pow(static_cast<double>(count) + model.b, -model.a)));
  }
  return inverse;
}

std::vector<float> PropensityWeights(absl::Span<const int64_t> label_counts, int64_t points,
                                     const PropensityModel& model, double strength) {
  std::vector<float> weights = InversePropensities(label_counts, points, model);
  double sum = 0.0;
  double labels = 0.0;
  for (size_t l = 0; l < weights.size(); ++l) {
    weights[l] = static_cast<float>(std::pow(double{weights[l]}, strength));
    sum += static_cast<double>(label_counts[l]) * weights[l];
    labels += static_cast<double>(label_counts[l]);
  }
  const auto scale = static_cast<float>(labels > 0.0 ? labels / sum : 1.0);
  for (float& weight : weights) weight *= scale;
  return weights;
}

}  // namespace dslide
