// What neighbour searches cost and find as points become more.

#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "core/engine/data/sparse_batch.h"

namespace dslide::bench {

struct SearchGrowthOptions {
  int64_t queries = 300;  // points of the set, each leaving itself out
  int64_t k = 100;
  int64_t rounds = 5;  // each asks all queries of all searches; medians of the rounds are reported
};

// Measures on the first `count` points, whose values are counts: they become tf-idf of length 1.
// One thread; times are its processor time. The result: {"points", "features_per_point",
// "postings_per_query", "scan": {"us", "bytes"}, "exact": {"us", "bytes", "add_us", "recall",
// "differing"}, "impact": ..., "hashed": ...}. differing: queries whose neighbours or similarities
// are not those of the scan to the last bit.
nlohmann::ordered_json MeasureSearches(const SparseBatch& points, int64_t count,
                                       const SearchGrowthOptions& options);

}  // namespace dslide::bench
