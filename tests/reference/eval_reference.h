// The metrics of ranked labels, written from their definitions: one k at a time, sets and plain
// loops, no shared code with core/eval.

#pragma once

#include <cstdint>
#include <set>
#include <vector>

namespace dslide::reference {

struct RankedPoint {
  std::vector<uint32_t> ranked;  // best first
  std::set<uint32_t> labels;     // may be empty
};

struct AccuracyFigures {
  double precision = 0;
  double ndcg = 0;
  double recall = 0;
  double psp = 0;
  double psndcg = 0;
};

// inverse_propensities: [labels] 1 / p_l. At least one point must have a label.
AccuracyFigures MeasureRankings(const std::vector<RankedPoint>& points, int64_t k,
                                const std::vector<float>& inverse_propensities);

}  // namespace dslide::reference
