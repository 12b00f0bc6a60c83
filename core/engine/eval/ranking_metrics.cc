#include "core/engine/eval/ranking_metrics.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace dslide {

RankingMetrics::RankingMetrics(std::vector<int64_t> cutoffs,
                               absl::Span<const float> inverse_propensities)
    : cutoffs_(std::move(cutoffs)),
      inverse_propensities_(inverse_propensities),
      ideal_(1, 0.0),
      sums_(cutoffs_.size()) {
  for (int64_t rank = 1; rank <= depth(); ++rank) {
    discounts_.push_back(1 / std::log2(static_cast<double>(rank) + 1));
    ideal_.push_back(ideal_.back() + discounts_.back());
  }
}

void RankingMetrics::Gain::Add(double discount, double weight) {
  hits += 1;
  discounted += discount;
  weighted += weight;
  weighted_discounted += weight * discount;
}

void RankingMetrics::RankByPropensity(absl::Span<const RowId> labels) {
  best_.clear();
  for (const RowId label : labels) best_.push_back(inverse_propensities_[label.value()]);
  const auto kept = std::min(best_.size(), static_cast<size_t>(depth()));
  std::partial_sort(best_.begin(), best_.begin() + static_cast<std::ptrdiff_t>(kept), best_.end(),
                    std::greater<>());
  best_.resize(kept);
}

void RankingMetrics::Add(absl::Span<const RowId> ranked, absl::Span<const RowId> labels) {
  if (labels.empty()) return;
  ++points_;
  const bool weigh = !inverse_propensities_.empty();
  if (weigh) RankByPropensity(labels);
  Gain found;
  Gain best;
  size_t rank = 0;  // ranks that are looked at
  for (size_t c = 0; c < cutoffs_.size(); ++c) {
    const auto k = static_cast<size_t>(cutoffs_[c]);
    for (; rank < k; ++rank) {
      if (rank < best_.size()) best.Add(discounts_[rank], best_[rank]);
      if (rank >= ranked.size()) continue;
      const RowId label = ranked[rank];
      if (!std::binary_search(labels.begin(), labels.end(), label)) continue;
      found.Add(discounts_[rank], weigh ? inverse_propensities_[label.value()] : 1.0);
    }
    const double ideal = ideal_[std::min(k, labels.size())];
    Sums& sums = sums_[c];
    sums.hits += found.hits;
    sums.ndcg += found.discounted / ideal;
    sums.recall += found.hits / static_cast<double>(labels.size());
    sums.psp += found.weighted;
    sums.best_psp += best.weighted;
    sums.psndcg += found.weighted_discounted / ideal;
    sums.best_psndcg += best.weighted_discounted / ideal;
  }
}

std::vector<AccuracyAtK> RankingMetrics::Accuracy() const {
  const double n = static_cast<double>(std::max<int64_t>(points_, 1));
  std::vector<AccuracyAtK> accuracy;
  for (size_t c = 0; c < cutoffs_.size(); ++c) {
    const Sums& sums = sums_[c];
    AccuracyAtK at;
    at.k = cutoffs_[c];
    at.precision = sums.hits / (static_cast<double>(at.k) * n);
    at.ndcg = sums.ndcg / n;
    at.recall = sums.recall / n;
    if (!inverse_propensities_.empty()) {
      at.psp = points_ > 0 ? sums.psp / sums.best_psp : 0.0;
      at.psndcg = points_ > 0 ? sums.psndcg / sums.best_psndcg : 0.0;
    }
    accuracy.push_back(at);
  }
  return accuracy;
}

}  // namespace dslide
