#include "core/engine/model/top_k.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "core/engine/math/kernels.h"
#include "core/engine/math/kernels_scan.h"
#include "core/engine/model/scan_queries.h"
#include "core/engine/model/scanned_rows.h"
#include "core/engine/rows/aligned_floats.h"

namespace dslide {
namespace {

constexpr float kTopKMinusInfinity = -std::numeric_limits<float>::infinity();
// Rows that a thread scores at once, and queries they are scored for: 256 queries of 128 floats
// stay in the L2 cache while rows stream past.
constexpr int64_t kRankedRowsPerGrain = 512;
constexpr int64_t kQueriesPerPass = 256;
constexpr int64_t kRankedRowsAhead = 8;
// Rows that a thread rounds before it multiplies them.
constexpr int64_t kRoundedRows = 4;
constexpr int64_t kRoundedRowsAhead = 12;
// Fewer queries are multiplied with rows as they are in the time in which those come from memory.
constexpr int64_t kFewestRounded = 8;
// Where fewer rows than this come to one that is wanted, most of them would be scored anyway.
constexpr int64_t kRowsPerWanted = 32;

// What one thread has found for the queries of a pass, and its memory.
struct ThreadTops {
  ThreadTops(const RowStore& store, const ScanQueries* rounded, int64_t queries, int64_t k)
      : tops(static_cast<size_t>(queries), TopRows(k)), logits(static_cast<size_t>(queries)) {
    const int64_t lanes = (queries + kScanQueries - 1) / kScanQueries * kScanQueries;
    thresholds.Resize(lanes);
    std::fill_n(thresholds.data(), lanes, TopRows(k).threshold());
    widened.Resize(kRoundedRows * store.stride());
    if (rounded != nullptr) {
      whole.resize(static_cast<size_t>(kRoundedRows * rounded->shape().segments()));
    }
  }

  void Offer(size_t query, RowId row, float logit) {
    if (!(logit >= thresholds.data()[query])) return;
    tops[query].Offer(row, logit);
    thresholds.data()[query] = tops[query].threshold();
  }

  std::vector<TopRows> tops;
  AlignedFloats thresholds;  // of the tops, side by side for a fast comparison
  std::vector<float> logits;
  AlignedFloats widened;                // kRoundedRows rows
  std::vector<ScanLine<int8_t>> whole;  // likewise
};

void PrefetchRow(const RowReader& reader, int64_t row, int64_t end) {
  if (row < end) reader.Prefetch(LocalRow(static_cast<uint32_t>(row)));
}

// Numbers, and after them the same negated. out: [2 * count].
void CopyWithNegated(const int8_t* numbers, int64_t count, int8_t* out) {
  std::copy_n(numbers, count, out);
  for (int64_t i = 0; i < count; ++i) out[count + i] = static_cast<int8_t>(-numbers[i]);
}

// A pass over rows: every query is multiplied with every row.
void MultiplyRows(const RowReader& reader, const AlignedRows& hidden,
                  absl::Span<const uint32_t> queries, int64_t begin, int64_t end,
                  LeftOutRows left_out, ThreadTops& found) {
  const int64_t dim = reader.store().dim();
  for (int64_t i = begin; i < end; ++i) {
    const LocalRow row(static_cast<uint32_t>(i));
    if (!left_out.empty() && left_out[static_cast<size_t>(i)] != 0) continue;
    PrefetchRow(reader, i + kRankedRowsAhead, end);
    RowLogits(reader.Weights(row, found.widened.data()), reader.Bias(row), hidden.data(), dim,
              hidden.stride(), queries, found.logits.data());
    const RowId global = reader.store().rows().ToGlobal(row);
    for (size_t q = 0; q < queries.size(); ++q) found.Offer(q, global, found.logits[q]);
  }
}

// Scores `rows` rows from `first` on exactly for those queries of a block that they can matter to,
// bit by bit of `reached`: the logits are those of MultiplyRows().
void OfferReached(const RowReader& reader, const AlignedRows& hidden, int64_t first, int64_t rows,
                  int64_t block, const uint32_t* reached, LeftOutRows left_out, ThreadTops& found) {
  const RowStore& store = reader.store();
  uint32_t samples[kScanQueries];
  for (int64_t r = 0; r < rows; ++r) {
    if (reached[r] == 0) continue;
    if (!left_out.empty() && left_out[static_cast<size_t>(first + r)] != 0) continue;
    size_t count = 0;
    for (uint32_t left = reached[r]; left != 0; left &= left - 1) {
      samples[count++] = static_cast<uint32_t>(block * kScanQueries + std::countr_zero(left));
    }
    const LocalRow local(static_cast<uint32_t>(first + r));
    RowLogits(reader.Weights(local, found.widened.data()), reader.Bias(local), hidden.data(),
              store.dim(), hidden.stride(), {samples, count}, found.logits.data());
    const RowId row = store.rows().ToGlobal(local);
    for (size_t i = 0; i < count; ++i) found.Offer(samples[i], row, found.logits[i]);
  }
}

// The same as MultiplyRows(), where products of whole numbers say first which queries a row can
// matter to. Rows are brought to the cache bit by bit: a core has only so many reads under way.
void ScanRoundedRows(const RowReader& reader, const AlignedRows& hidden, const ScanQueries& queries,
                     int64_t begin, int64_t end, LeftOutRows left_out, ThreadTops& found) {
  const RowStore& store = reader.store();
  const float* weights[kRoundedRows];
  ScannedRow scanned[kRoundedRows];
  uint32_t reached[kRoundedRows];
  int8_t* const whole = found.whole.data()->whole;
  int64_t ahead = begin + kRoundedRowsAhead;
  for (int64_t first = begin; first < end; first += kRoundedRows) {
    const int64_t count = std::min(kRoundedRows, end - first);
    for (int64_t r = 0; r < count; ++r) {
      const LocalRow row(static_cast<uint32_t>(first + r));
      weights[r] = reader.Weights(row, found.widened.data() + r * store.stride());
      scanned[r].bias = ScanQueries::BiasOf(reader.Bias(row));
    }
    PrefetchRow(reader, ahead++, end);
    ScanRows(weights, count, queries.shape(), whole, scanned);
    const int64_t all_ahead = first + kRoundedRows + kRoundedRowsAhead;
    PrefetchRow(reader, ahead++, end);
    for (int64_t block = 0; block < queries.blocks(); ++block) {
      if (ahead < all_ahead) PrefetchRow(reader, ahead++, end);
      ReachedQueries(whole, scanned, count, queries.Block(block, found.thresholds.data()), reached);
      OfferReached(reader, hidden, first, count, block, reached, left_out, found);
    }
    while (ahead < all_ahead) PrefetchRow(reader, ahead++, end);
  }
}

// The same with rows that were rounded before. They lie one after the other, which processors
// notice by themselves.
void ScanKeptRows(const RowReader& reader, const ScannedRows& kept, const AlignedRows& hidden,
                  const ScanQueries& queries, int64_t begin, int64_t end, LeftOutRows left_out,
                  ThreadTops& found) {
  const int64_t half = queries.shape().segments() * kScanSegment / 2;
  uint32_t reached[kRoundedRows];
  for (int64_t first = begin; first < end; first += kRoundedRows) {
    const int64_t count = std::min(kRoundedRows, end - first);
    const LocalRow row(static_cast<uint32_t>(first));
    const int8_t* whole = kept.whole(row);
    if (queries.shape().is_signed) {
      int8_t* const both = found.whole.data()->whole;
      for (int64_t r = 0; r < count; ++r)
        CopyWithNegated(whole + r * half, half, both + 2 * r * half);
      whole = both;
    }
    for (int64_t block = 0; block < queries.blocks(); ++block) {
      ReachedQueries(whole, kept.scanned(row), count, queries.Block(block, found.thresholds.data()),
                     reached);
      OfferReached(reader, hidden, first, count, block, reached, left_out, found);
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
                     int64_t k, Parallelism parallelism, LeftOutRows left_out,
                     const ScannedRows* kept) {
  const RowStore& store = reader.store();
  ScoredRows answer = EmptyAnswer(batch, k);
  const int64_t num_rows = store.num_rows();
  const int64_t scored = num_rows - std::count(left_out.begin(), left_out.end(), 1);
  answer.scored_rows = batch * scored;
  answer.by_query.assign(static_cast<size_t>(batch), static_cast<uint32_t>(scored));
  const int64_t grains = (num_rows + kRankedRowsPerGrain - 1) / kRankedRowsPerGrain;
  std::vector<uint32_t> queries(std::min(batch, kQueriesPerPass));
  std::iota(queries.begin(), queries.end(), 0);
  AlignedRows hidden_rows;
  for (int64_t first = 0; first < batch; first += kQueriesPerPass) {
    const int64_t count = std::min(kQueriesPerPass, batch - first);
    const absl::Span<const float> asked = hidden.subspan(first * store.dim(), count * store.dim());
    hidden_rows.Copy(asked, store.dim());
    std::optional<ScanQueries> rounded;
    const bool pays = kept != nullptr || count >= kFewestRounded;
    if (pays && num_rows >= kRowsPerWanted * k && ScanQueries::Serve(asked, count, store.dim())) {
      rounded.emplace(asked, count, store.dim());
    }
    const ThreadTops nothing(store, rounded.has_value() ? &*rounded : nullptr, count, k);
    std::vector<ThreadTops> found(std::max(1, parallelism.threads), nothing);
    ParallelFor(parallelism, grains, /*grain=*/1, [&](int64_t grain, int thread) {
      const int64_t begin = grain * kRankedRowsPerGrain;
      const int64_t end = std::min(num_rows, begin + kRankedRowsPerGrain);
      if (rounded.has_value() && kept != nullptr) {
        ScanKeptRows(reader, *kept, hidden_rows, *rounded, begin, end, left_out, found[thread]);
      } else if (rounded.has_value()) {
        ScanRoundedRows(reader, hidden_rows, *rounded, begin, end, left_out, found[thread]);
      } else {
        MultiplyRows(reader, hidden_rows, absl::MakeConstSpan(queries).subspan(0, count), begin,
                     end, left_out, found[thread]);
      }
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
                         Parallelism parallelism, LeftOutRows left_out) {
  const RowStore& store = reader.store();
  const std::vector<uint32_t>& offsets = candidates.offsets;
  const int64_t batch = static_cast<int64_t>(offsets.size()) - 1;
  const int64_t dim = store.dim();
  ScoredRows answer = EmptyAnswer(batch, k);
  answer.exact = false;
  answer.by_query.resize(static_cast<size_t>(batch));
  std::vector<AlignedFloats> widened(std::max(1, parallelism.threads));
  for (AlignedFloats& row : widened) row.Resize(store.stride());
  ParallelFor(parallelism, batch, /*grain=*/4, [&](int64_t query, int thread) {
    TopRows best(k);
    const uint32_t sample = static_cast<uint32_t>(query);
    for (uint32_t i = offsets[query]; i < offsets[query + 1]; ++i) {
      if (i + kRankedRowsAhead < offsets[query + 1])
        reader.Prefetch(candidates.rows[i + kRankedRowsAhead]);
      const LocalRow row = candidates.rows[i];
      if (!left_out.empty() && left_out[row.value()] != 0) continue;
      ++answer.by_query[static_cast<size_t>(query)];
      float logit = 0.0f;
      RowLogits(reader.Weights(row, widened[thread].data()), reader.Bias(row), hidden.data(), dim,
                dim, {&sample, 1}, &logit);
      if (!candidates.logit_offsets.empty()) logit += candidates.logit_offsets[i];
      if (logit >= best.threshold()) best.Offer(store.rows().ToGlobal(row), logit);
    }
    best.Write(answer.rows.data() + query * k, answer.logits.data() + query * k);
  });
  for (const uint32_t scored : answer.by_query) answer.scored_rows += scored;
  return answer;
}

}  // namespace dslide
