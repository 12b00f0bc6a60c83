#include "core/engine/memory/neighbour_votes.h"

#include <algorithm>
#include <cmath>

namespace dslide {

VoteCounter::VoteCounter(int64_t num_labels, double power, int64_t max_candidates)
    : power_(power),
      max_candidates_(max_candidates),
      shares_(static_cast<size_t>(num_labels)),
      divided_(static_cast<size_t>(num_labels)),
      near_(static_cast<size_t>(num_labels)) {}

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
    const double weight = std::pow(static_cast<double>(neighbour.similarity), power_);
    total += weight;
    near_total += weight * weight;
    votes.nearest = std::max(votes.nearest, neighbour.similarity);
    if (neighbour.labels.empty()) continue;
    divided_total += weight;
    const double part = weight / static_cast<double>(neighbour.labels.size());
    for (const RowId label : neighbour.labels) {
      if (label.value() >= shares_.size()) continue;
      if (shares_[label.value()] == 0) touched_.push_back(label);
      shares_[label.value()] += weight;
      divided_[label.value()] += part;
      near_[label.value()] += weight * weight;
    }
  }
  const auto before = [&](RowId a, RowId b) {
    const double left = shares_[a.value()];
    const double right = shares_[b.value()];
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
    votes.shares.push_back(static_cast<float>(shares_[label.value()] / total));
    votes.divided_shares.push_back(static_cast<float>(divided_[label.value()] / divided_total));
    // Squares may be too small for a double where the weights are not.
    const double near = near_total > 0 ? near_[label.value()] / near_total : 0;
    votes.near_shares.push_back(static_cast<float>(near));
  }
  for (const RowId label : touched_) {
    shares_[label.value()] = divided_[label.value()] = near_[label.value()] = 0;
  }
}

}  // namespace dslide
