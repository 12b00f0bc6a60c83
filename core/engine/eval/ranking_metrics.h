// Accuracy of ranked labels, as the Extreme Classification Repository defines it.
//
// For a point with the labels Y, of which the ranking has hits at some ranks r = 1, 2, ...:
//
//   P@k       hits up to rank k / k
//   nDCG@k    sum over these hits of 1 / log2(r + 1), over the same sum for ranks 1 .. min(k, |Y|)
//   recall@k  hits up to rank k / |Y|
//   PSP@k     P@k with each hit weighed by 1 / p_l, the inverse propensity of its label
//   PSnDCG@k  nDCG@k with each hit weighed so
//
// The first three are means over the points. The last two are sums over the points, divided by the
// same sums for the best possible rankings: each point's own labels by falling 1 / p_l. Points
// without labels do not count.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"

namespace dslide {

// All in [0, 1].
struct AccuracyAtK {
  int64_t k = 0;
  double precision = 0;
  double ndcg = 0;
  double recall = 0;
  // Without propensities there are none.
  std::optional<double> psp = {};
  std::optional<double> psndcg = {};
};

// Thread safety: as a plain struct.
class RankingMetrics {
 public:
  //   cutoffs              : the values of k, at least one, each >= 1, strictly ascending.
  //   inverse_propensities : [labels] 1 / p_l (propensity.h), or empty. Must outlive this.
  explicit RankingMetrics(std::vector<int64_t> cutoffs,
                          absl::Span<const float> inverse_propensities = {});

  // The largest k: ranks beyond it are not looked at.
  int64_t depth() const { return cutoffs_.back(); }
  // Points with labels that were added.
  int64_t points() const { return points_; }

  // Adds a point.
  //   ranked : predicted labels, best first, distinct. Fewer than depth() count as misses.
  //   labels : the true ones, strictly ascending; may be none.
  // With propensities all ids must be below their number.
  void Add(absl::Span<const RowId> ranked, absl::Span<const RowId> labels);

  // One entry a cutoff, in their order; zeros while points() is 0.
  std::vector<AccuracyAtK> Accuracy() const;

 private:
  // What a ranking gains up to some rank.
  struct Gain {
    double hits = 0;
    double discounted = 0;           // hits, each times its rank's discount
    double weighted = 0;             // hits, each times 1 / p_l
    double weighted_discounted = 0;  // both
    void Add(double discount, double weight);
  };
  // Over the points, up to one cutoff.
  struct Sums {
    double hits = 0;
    double ndcg = 0;
    double recall = 0;
    double psp = 0;
    double best_psp = 0;
    double psndcg = 0;
    double best_psndcg = 0;
  };
  // Falling 1 / p_l of the labels, as many as can count; into best_.
  void RankByPropensity(absl::Span<const RowId> labels);

  const std::vector<int64_t> cutoffs_;
  const absl::Span<const float> inverse_propensities_;
  std::vector<double> discounts_;  // [depth] 1 / log2(rank + 1), ranks from 1
  std::vector<double> ideal_;      // [depth + 1] sums of the first discounts
  std::vector<Sums> sums_;         // [cutoffs]
  std::vector<float> best_;        // scratch
  int64_t points_ = 0;
};

}  // namespace dslide
