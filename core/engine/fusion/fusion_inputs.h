// What the components of a logit say of a candidate label, as the numbers that are added up.

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/ids.h"

namespace dslide {

// Inputs of the fusion, in the order of its weights.
enum class FusionInput {
  kLift,   // log(1 + 10 p N / (n + 1)): how much more often than by chance neighbours have it
  kShare,  // log(p + 1e-4)
  kDividedShare,      // log(q + 1e-4)
  kTreeSum,           // log of the mean over trees of exp(path)
  kTreeMean,          // mean over trees of path
  kLabelRow,          // mean over trees of h of the label's own row
  kCentroid,          // inner product with the label's centroid
  kNetwork,           // logit of the network, and log(n + 1), which it is trained beside
  kNearShare,         // log(r + 1e-4)
  kRelativeCentroid,  // the centroid's inner product beside the nearest neighbour's: c / (s + 0.05)
};
inline constexpr size_t kFusionInputs = 10;

absl::string_view FusionInputName(FusionInput input);

// What the components found for the candidates of one query. N: points of the memory; p, q, r:
// shares, divided and near shares of the neighbours' weight, s: similarity of the nearest
// (neighbour_votes.h); n: points that carry the label.
struct ComponentScores {
  std::vector<RowId> labels;
  std::vector<float> shares;          // p, [labels]
  std::vector<float> divided_shares;  // q, [labels]
  std::vector<float> near_shares;     // r, [labels]
  float nearest = 0;                  // s
  std::vector<float> label_points;    // n, [labels]
  std::vector<float> centroids;       // [labels]; empty without trees
  std::vector<float> logits;          // of the network; [labels]; empty without one
  // Of the label's own row, and of the rows of its clusters: z. The path is the sum of h(z) over
  // them, h(z) = -max(0, 1 - z)^3. [trees][labels]
  std::vector<std::vector<float>> label_rows;
  std::vector<std::vector<float>> paths;
};

// h(z), which turns the margin of a linear row into a log probability of a kind.
inline float MarginLoss(float margin) {
  const float missing = margin < 1 ? 1 - margin : 0;
  return -missing * missing * missing;
}

// Appends kFusionInputs numbers for each candidate.
void AppendFusionInputs(const ComponentScores& scores, double points, std::vector<float>& inputs);

}  // namespace dslide
