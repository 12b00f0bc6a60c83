#include "tests/reference/eval_reference.h"

#include <algorithm>
#include <cmath>

namespace dslide::reference {
namespace {

double RankDiscount(size_t rank) { return std::log(2.0) / std::log(static_cast<double>(rank) + 1); }

// Gains of a ranking of one point: hits, and hits by discount, each with and without weights.
struct Gains {
  double plain = 0;
  double discounted = 0;
  double weighted = 0;
  double weighted_discounted = 0;
};

Gains GainsOf(const std::vector<uint32_t>& ranked, const std::set<uint32_t>& labels, size_t k,
              const std::vector<float>& weights) {
  Gains gains;
  for (size_t rank = 1; rank <= k && rank <= ranked.size(); ++rank) {
    const uint32_t label = ranked[rank - 1];
    if (labels.count(label) == 0) continue;
    gains.plain += 1;
    gains.discounted += RankDiscount(rank);
    gains.weighted += weights[label];
    gains.weighted_discounted += weights[label] * RankDiscount(rank);
  }
  return gains;
}

}  // namespace

AccuracyFigures MeasureRankings(const std::vector<RankedPoint>& points, int64_t k,
                                const std::vector<float>& inverse_propensities) {
  AccuracyFigures figures;
  double count = 0;
  double psp_best = 0;
  double psndcg_best = 0;
  for (const RankedPoint& point : points) {
    if (point.labels.empty()) continue;
    count += 1;
    const auto depth = static_cast<size_t>(k);
    const Gains found = GainsOf(point.ranked, point.labels, depth, inverse_propensities);
    std::vector<uint32_t> best(point.labels.begin(), point.labels.end());
    std::sort(best.begin(), best.end(), [&](uint32_t a, uint32_t b) {
      return inverse_propensities[a] > inverse_propensities[b];
    });
    const Gains possible = GainsOf(best, point.labels, depth, inverse_propensities);
    figures.precision += found.plain / static_cast<double>(k);
    figures.ndcg += found.discounted / possible.discounted;
    figures.recall += found.plain / static_cast<double>(point.labels.size());
    figures.psp += found.weighted;
    psp_best += possible.weighted;
    figures.psndcg += found.weighted_discounted / possible.discounted;
    psndcg_best += possible.weighted_discounted / possible.discounted;
  }
  figures.precision /= count;
  figures.ndcg /= count;
  figures.recall /= count;
  figures.psp /= psp_best;
  figures.psndcg /= psndcg_best;
  return figures;
}

}  // namespace dslide::reference
