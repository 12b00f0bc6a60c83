#include "core/engine/model/top_k.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "core/engine/math/kernels.h"
#include "core/engine/rows/aligned_floats.h"

namespace dslide {
namespace {

constexpr float kTopKMinusInfinity = -std::numeric_limits<float>::infinity();
// Rows that a thread scores at once, and queries they are scored for: 256 queries of 128 floats
// stay in the L2 cache while rows stream past.
constexpr int64_t kRankedRowsPerGrain = 512;
constexpr int64_t kQueriesPerPass = 256;
constexpr int64_t kRankedRowsAhead = 8;

// What one thread has found for the queries of a pass.
struct ThreadTops {
  std::vector<TopRows> tops;
  std::vector<float> thresholds;  // of the tops, side by side for a fast comparison
  std::vector<float> logits;
  AlignedFloats widened;  // one row
};

void ScanRows(const RowReader& reader, const AlignedRows& hidden,
              absl::Span<const uint32_t> queries, int64_t begin, int64_t end, ThreadTops& found) {
  const int64_t dim = reader.store().dim();
  for (int64_t i = begin; i < end; ++i) {
    const LocalRow row(static_cast<uint32_t>(i));
    if (i + kRankedRowsAhead < end)
      reader.Prefetch(LocalRow(static_cast<uint32_t>(i + kRankedRowsAhead)));
    RowLogits(reader.Weights(row, found.widened.data()), reader.Bias(row), hidden.data(), dim,
              hidden.stride(), queries, found.logits.data());
    for (size_t q = 0; q < queries.size(); ++q) {
      if (!(found.logits[q] >= found.thresholds[q])) continue;
      found.tops[q].Offer(reader.store().rows().ToGlobal(row), found.logits[q]);
      found.thresholds[q] = found.tops[q].threshold();
    }
  }
}

ScoredRows EmptyAnswer(int64_t batch, int64_t k) {
  ScoredRows answer;
  answer.rows.resize(batch * k, kNoRow);
  answer.logits.resize(batch * k, kTopKMinusInfinity);
  return answer;
}

}  // namespace

TopRows::TopRows(int64_t k)
    : k_(k), threshold_(k > 0 ? kTopKMinusInfinity : std::numeric_limits<float>::infinity()) {}

void TopRows::Offer(RowId row, float logit) {
  const Entry entry{logit, row};
  if (static_cast<int64_t>(heap_.size()) < k_) {
    heap_.push_back(entry);
    std::push_heap(heap_.begin(), heap_.end());
  } else if (k_ > 0 && entry < heap_.front()) {
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.back() = entry;
    std::push_heap(heap_.begin(), heap_.end());
  }
  if (k_ > 0 && static_cast<int64_t>(heap_.size()) == k_) threshold_ = heap_.front().logit;
}

void TopRows::Merge(const TopRows& other) {
  for (const Entry& entry : other.heap_) Offer(entry.row, entry.logit);
}

void TopRows::Write(RowId* rows, float* logits) {
  std::sort_heap(heap_.begin(), heap_.end());
  for (int64_t i = 0; i < k_; ++i) {
    const bool has = i < static_cast<int64_t>(heap_.size());
    rows[i] = has ? heap_[i].row : kNoRow;
    logits[i] = has ? heap_[i].logit : kTopKMinusInfinity;
  }
}

ScoredRows ExactTopK(const RowReader& reader, absl::Span<const float> hidden, int64_t batch,
                     int64_t k, Parallelism parallelism) {
  const RowStore& store = reader.store();
  ScoredRows answer = EmptyAnswer(batch, k);
  const int64_t num_rows = store.num_rows();
  answer.scored_rows = batch * num_rows;
  answer.by_query.assign(static_cast<size_t>(batch), static_cast<uint32_t>(num_rows));
  const int64_t grains = (num_rows + kRankedRowsPerGrain - 1) / kRankedRowsPerGrain;
  std::vector<uint32_t> queries(std::min(batch, kQueriesPerPass));
  std::iota(queries.begin(), queries.end(), 0);
  AlignedRows hidden_rows;
  for (int64_t first = 0; first < batch; first += kQueriesPerPass) {
    const int64_t count = std::min(kQueriesPerPass, batch - first);
    hidden_rows.Copy(hidden.subspan(first * store.dim(), count * store.dim()), store.dim());
    ThreadTops nothing{std::vector<TopRows>(count, TopRows(k)),
                       std::vector<float>(count, TopRows(k).threshold()), std::vector<float>(count),
                       AlignedFloats()};
    nothing.widened.Resize(store.stride());
    std::vector<ThreadTops> found(std::max(1, parallelism.threads), nothing);
    ParallelFor(parallelism, grains, /*grain=*/1, [&](int64_t grain, int thread) {
      ScanRows(reader, hidden_rows, absl::MakeConstSpan(queries).subspan(0, count),
               grain * kRankedRowsPerGrain, std::min(num_rows, (grain + 1) * kRankedRowsPerGrain),
               found[thread]);
    });
    for (int64_t q = 0; q < count; ++q) {
      TopRows& best = found[0].tops[q];
      for (size_t thread = 1; thread < found.size(); ++thread) best.Merge(found[thread].tops[q]);
      best.Write(answer.rows.data() + (first + q) * k, answer.logits.data() + (first + q) * k);
    }
  }
  return answer;
}

ScoredRows CandidateTopK(const RowReader& reader, absl::Span<const float> hidden,
                         const ExplicitRows<LocalRow>& candidates, int64_t k,
                         Parallelism parallelism) {
  const RowStore& store = reader.store();
  const std::vector<uint32_t>& offsets = candidates.offsets;
  const int64_t batch = static_cast<int64_t>(offsets.size()) - 1;
  const int64_t dim = store.dim();
  ScoredRows answer = EmptyAnswer(batch, k);
  answer.exact = false;
  answer.scored_rows = static_cast<int64_t>(candidates.rows.size());
  for (int64_t q = 0; q < batch; ++q) answer.by_query.push_back(offsets[q + 1] - offsets[q]);
  std::vector<AlignedFloats> widened(std::max(1, parallelism.threads));
  for (AlignedFloats& row : widened) row.Resize(store.stride());
  ParallelFor(parallelism, batch, /*grain=*/4, [&](int64_t query, int thread) {
    TopRows best(k);
    const uint32_t sample = static_cast<uint32_t>(query);
    for (uint32_t i = offsets[query]; i < offsets[query + 1]; ++i) {
      if (i + kRankedRowsAhead < offsets[query + 1])
        reader.Prefetch(candidates.rows[i + kRankedRowsAhead]);
      const LocalRow row = candidates.rows[i];
      float logit = 0.0f;
      RowLogits(reader.Weights(row, widened[thread].data()), reader.Bias(row), hidden.data(), dim,
                dim, {&sample, 1}, &logit);
      if (!candidates.logit_offsets.empty()) logit += candidates.logit_offsets[i];
      if (logit >= best.threshold()) best.Offer(store.rows().ToGlobal(row), logit);
    }
    best.Write(answer.rows.data() + query * k, answer.logits.data() + query * k);
  });
  return answer;
}

}  // namespace dslide
