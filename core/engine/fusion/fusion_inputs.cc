#include "core/engine/fusion/fusion_inputs.h"

#include <cmath>

namespace dslide {
namespace {

// Keeps the logarithm of a share that is 0 above that of any neighbour.
constexpr float kLeastShare = 1e-4f;
// Likewise of a path: a label that every tree rules out.
constexpr double kLeastPath = 1e-6;
constexpr double kLiftWeight = 10;
// Of a nearest neighbour: keeps quotients by it small.
constexpr float kLeastSimilarity = 0.05f;

}  // namespace

absl::string_view FusionInputName(FusionInput input) {
  switch (input) {
    case FusionInput::kLift:
      return "lift";
    case FusionInput::kShare:
      return "share";
    case FusionInput::kDividedShare:
      return "divided_share";
    case FusionInput::kTreeSum:
      return "tree_sum";
    case FusionInput::kTreeMean:
      return "tree_mean";
    case FusionInput::kLabelRow:
      return "label_row";
    case FusionInput::kCentroid:
      return "centroid";
    case FusionInput::kNetwork:
      return "network";
    case FusionInput::kNearShare:
      return "near_share";
    case FusionInput::kRelativeCentroid:
      return "relative_centroid";
  }
  return "unknown";
}

void AppendFusionInputs(const ComponentScores& scores, double points, std::vector<float>& inputs) {
  const size_t trees = scores.paths.size();
  for (size_t i = 0; i < scores.labels.size(); ++i) {
    double sum = 0;
    double mean = 0;
    double own = 0;
    for (size_t tree = 0; tree < trees; ++tree) {
      sum += std::exp(static_cast<double>(scores.paths[tree][i]));
      mean += scores.paths[tree][i];
      own += MarginLoss(scores.label_rows[tree][i]);
    }
    const double scale = trees == 0 ? 0 : 1 / static_cast<double>(trees);
    const double lift = kLiftWeight * scores.shares[i] * points / (scores.label_points[i] + 1);
    inputs.push_back(static_cast<float>(std::log1p(lift)));
    inputs.push_back(std::log(scores.shares[i] + kLeastShare));
    inputs.push_back(std::log(scores.divided_shares[i] + kLeastShare));
    inputs.push_back(static_cast<float>(trees == 0 ? 0.0 : std::log(sum * scale + kLeastPath)));
    inputs.push_back(static_cast<float>(mean * scale));
    inputs.push_back(static_cast<float>(own * scale));
    inputs.push_back(scores.centroids.empty() ? 0.0f : scores.centroids[i]);
    inputs.push_back(scores.logits.empty() ? 0.0f
                                           : scores.logits[i] + std::log1p(scores.label_points[i]));
    inputs.push_back(std::log(scores.near_shares[i] + kLeastShare));
    inputs.push_back(scores.centroids.empty()
                         ? 0.0f
                         : scores.centroids[i] / (scores.nearest + kLeastSimilarity));
  }
}

}  // namespace dslide
