#include "core/engine/memory/neighbour_votes.h"

#include <algorithm>
#include <cmath>

namespace dslide {

VoteCounter::VoteCounter(int64_t num_labels, double power, int64_t max_candidates)
    : power_(power), max_candidates_(max_candidates), sums_(static_cast<size_t>(num_labels)) {}

double VoteCounter::WeightOf(float similarity) const {
  const double base = similarity;
  return power_ == 2 ? base * base : std::pow(base, power_);
}

void VoteCounter::Count(absl::Span<const LabelledNeighbour> neighbours, LabelVotes& votes) {
  // Sums of doubles depend on their order in the last bits.
  sorted_.assign(neighbours.begin(), neighbours.end());
  std::sort(sorted_.begin(), sorted_.end(),
            [](const auto& a, const auto& b) { return a.point < b.point; });
  touched_.clear();
  double total = 0;
  double divided_total = 0;
  double near_total = 0;
  votes.nearest = 0;
  for (const LabelledNeighbour& neighbour : sorted_) {
    const double weight = WeightOf(neighbour.similarity);
    total += weight;
    near_total += weight * weight;
    votes.nearest = std::max(votes.nearest, neighbour.similarity);
    if (neighbour.labels.empty()) continue;
    divided_total += weight;
    const double part = weight / static_cast<double>(neighbour.labels.size());
    for (const RowId label : neighbour.labels) {
      if (label.value() >= sums_.size()) continue;
      Sums& sums = sums_[label.value()];
      if (sums.share == 0) touched_.push_back(label);
      sums.share += weight;
      sums.divided += part;
      sums.near += weight * weight;
    }
  }
  const auto before = [&](RowId a, RowId b) {
    const double left = sums_[a.value()].share;
    const double right = sums_[b.value()].share;
    return left != right ? left > right : a < b;
  };
  const auto kept = std::min(static_cast<size_t>(max_candidates_), touched_.size());
  const auto middle = touched_.begin() + static_cast<std::ptrdiff_t>(kept);
  if (middle != touched_.end()) {
    std::nth_element(touched_.begin(), middle, touched_.end(), before);
  }
  std::sort(touched_.begin(), middle, before);
  votes.labels.assign(touched_.begin(), middle);
  votes.shares.clear();
  votes.divided_shares.clear();
  votes.near_shares.clear();
  for (const RowId label : votes.labels) {
    const Sums& sums = sums_[label.value()];
    votes.shares.push_back(static_cast<float>(sums.share / total));
    votes.divided_shares.push_back(static_cast<float>(sums.divided / divided_total));
    // Squares may be too small for a double where the weights are not.
    votes.near_shares.push_back(static_cast<float>(near_total > 0 ? sums.near / near_total : 0));
  }
  for (const RowId label : touched_) sums_[label.value()] = Sums();
}

}  // namespace dslide
