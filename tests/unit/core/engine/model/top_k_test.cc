#include "core/engine/model/top_k.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/counter_rng.h"
#include "core/engine/math/kernels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

std::unique_ptr<RowStore> MakeRankedStore(int64_t rows, int64_t dim, int64_t shard, int64_t shards,
                                          RowPrecision precision = RowPrecision::kF32) {
  TableSpec spec;
  spec.precision = precision;
  spec.name = "out";
  spec.role = TableRole::kHead;
  spec.rows = rows;
  spec.dim = dim;
  const std::vector<double> weights(shards, 1.0);
  const auto map = SlotMap::Deal(spec.num_slots, weights);
  auto store = RowStore::Create(
      spec, 1, ShardRows(*map, ShardId(static_cast<int32_t>(shard)), rows), Parallelism{1});
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

std::vector<float> MakeHidden(int64_t batch, int64_t dim) {
  CounterRng rng(4);
  std::vector<float> hidden(batch * dim);
  for (float& value : hidden) value = std::max(0.0f, rng.NextGaussian());
  return hidden;
}

// All rows of a store, sorted as the answer should be.
std::vector<std::pair<float, RowId>> Sorted(const RowStore& store, const float* hidden) {
  std::vector<std::pair<float, RowId>> rows;
  for (int64_t i = 0; i < store.num_rows(); ++i) {
    const LocalRow row(static_cast<uint32_t>(i));
    const float logit = store.Bias(row) + Dot(store.Weights(row), hidden, store.dim());
    rows.emplace_back(-logit, store.rows().ToGlobal(row));
  }
  std::sort(rows.begin(), rows.end());
  for (auto& [logit, row] : rows) logit = -logit;
  return rows;
}

TEST(TopKTest, ExactScanEqualsASort) {
  const auto store = MakeRankedStore(3000, 16, 1, 3);
  const int64_t batch = 300;  // more than one pass of queries
  const std::vector<float> hidden = MakeHidden(batch, 16);
  for (const int64_t k : {0, 1, 7}) {
    const ScoredRows best = ExactTopK(RowReader(*store), hidden, batch, k, Parallelism{3});
    EXPECT_TRUE(best.exact);
    EXPECT_EQ(best.scored_rows, batch * store->num_rows());
    ASSERT_EQ(static_cast<int64_t>(best.rows.size()), batch * k);
    for (int64_t q = 0; q < batch; ++q) {
      const auto expected = Sorted(*store, hidden.data() + q * 16);
      for (int64_t i = 0; i < k; ++i) {
        ASSERT_EQ(best.rows[q * k + i], expected[i].second) << "query " << q << " place " << i;
        EXPECT_EQ(best.logits[q * k + i], expected[i].first);
      }
    }
  }
}

// What a scan of each query alone finds, in which no number is rounded.
ScoredRows OneByOne(const RowReader& reader, const std::vector<float>& hidden, int64_t batch,
                    int64_t k) {
  ScoredRows all;
  const auto dim = static_cast<size_t>(reader.store().dim());
  for (int64_t q = 0; q < batch; ++q) {
    const absl::Span<const float> query =
        absl::MakeConstSpan(hidden).subspan(static_cast<size_t>(q) * dim, dim);
    const ScoredRows one = ExactTopK(reader, query, 1, k, Parallelism{1});
    all.rows.insert(all.rows.end(), one.rows.begin(), one.rows.end());
    all.logits.insert(all.logits.end(), one.logits.begin(), one.logits.end());
  }
  return all;
}

// Rows of several lengths, some of them all zeros, equal, subnormal or large.
void MakeUneven(RowStore& store, float large) {
  const RowUpdate update = store.BeginUpdate(Step(1), 1e38f);
  const int64_t dim = store.dim();
  CounterRng rng(11);
  std::vector<float> values(static_cast<size_t>(dim));
  for (int64_t i = 0; i < store.num_rows(); i += 3) {
    const float scale = i % 5 == 0 ? 0.0f : i % 7 == 0 ? 1e-40f : i % 101 == 0 ? large : 2.0f;
    for (float& x : values) x = i % 11 == 0 ? 0.25f : scale * rng.NextGaussian();
    ASSERT_TRUE(store.ChangeWeights(LocalRow(static_cast<uint32_t>(i)), RowStore::Change::kAssign,
                                    values.data(), static_cast<float>(i % 4), update));
  }
}

TEST(TopKTest, BatchesHaveTheBitsOfSingleQueries) {
  for (const RowPrecision precision : {RowPrecision::kF32, RowPrecision::kBf16Weights}) {
    for (const int64_t dim : {5, 64, 100, 200}) {
      for (const float large : {2.0f, 1e15f}) {
        const auto store = MakeRankedStore(3000, dim, 1, 2, precision);
        MakeUneven(*store, large);
        for (const bool is_signed : {false, true}) {
          constexpr int64_t kBatch = 37;
          std::vector<float> hidden = MakeHidden(kBatch, dim);
          for (size_t i = 0; is_signed && i < hidden.size(); i += 2) hidden[i] = -hidden[i];
          std::fill_n(hidden.begin(), dim, 0.0f);  // a query of zeros: ties by the bias
          const RowReader reader(*store);
          const ScannedRows kept(reader, Parallelism{2});
          for (const int64_t k : {0, 1, 10, 700}) {
            const ScoredRows expected = OneByOne(reader, hidden, kBatch, k);
            for (const ScannedRows* rows : {static_cast<const ScannedRows*>(nullptr), &kept}) {
              for (const int threads : {1, 3}) {
                const ScoredRows best =
                    ExactTopK(reader, hidden, kBatch, k, Parallelism{threads}, {}, rows);
                EXPECT_EQ(best.rows, expected.rows) << "dim " << dim << " k " << k;
                EXPECT_EQ(best.logits, expected.logits) << "dim " << dim << " k " << k;
                EXPECT_TRUE(best.exact);
              }
            }
          }
        }
      }
    }
  }
}

TEST(TopKTest, KeptRowsAnswerFewQueriesWithTheSameBits) {
  const auto store = MakeRankedStore(3000, 100, 0, 1);
  MakeUneven(*store, 2.0f);
  const RowReader reader(*store);
  const ScannedRows kept(reader, Parallelism{1});
  std::vector<uint8_t> left_out(3000, 0);
  for (size_t i = 0; i < left_out.size(); i += 3) left_out[i] = 1;
  for (const bool is_signed : {false, true}) {
    std::vector<float> hidden = MakeHidden(3, 100);
    for (size_t i = 0; is_signed && i < hidden.size(); i += 2) hidden[i] = -hidden[i];
    for (const int64_t batch : {1, 3}) {
      const ScoredRows expected =
          ExactTopK(reader, hidden, batch, 10, Parallelism{1}, left_out, nullptr);
      const ScoredRows best = ExactTopK(reader, hidden, batch, 10, Parallelism{2}, left_out, &kept);
      EXPECT_EQ(best.rows, expected.rows);
      EXPECT_EQ(best.logits, expected.logits);
      EXPECT_EQ(best.by_query, expected.by_query);
    }
  }
}

TEST(TopKTest, QueriesThatAreNoNumbersAreAnsweredAsAlone) {
  const auto store = MakeRankedStore(2000, 16, 0, 1);
  std::vector<float> hidden = MakeHidden(9, 16);
  hidden[20] = std::numeric_limits<float>::quiet_NaN();
  hidden[40] = std::numeric_limits<float>::infinity();
  const ScoredRows expected = OneByOne(RowReader(*store), hidden, 9, 5);
  const ScoredRows best = ExactTopK(RowReader(*store), hidden, 9, 5, Parallelism{2});
  EXPECT_EQ(best.rows, expected.rows);
  EXPECT_EQ(best.logits, expected.logits);
}

TEST(TopKTest, EqualLogitsGoToTheSmallerGlobalRow) {
  const auto store = MakeRankedStore(5000, 8, 0, 2);
  const std::vector<float> zeros(8, 0.0f);  // every logit is the bias, 0
  const ScoredRows best = ExactTopK(RowReader(*store), zeros, 1, 4, Parallelism{4});
  std::vector<RowId> held;
  for (uint32_t row = 0; held.size() < 4; ++row) {
    if (store->rows().Holds(RowId(row))) held.push_back(RowId(row));
  }
  EXPECT_EQ(best.rows, held);
}

TEST(TopKTest, MissingRowsAreMarked) {
  const auto store = MakeRankedStore(3, 8, 0, 1);
  const ScoredRows best = ExactTopK(RowReader(*store), MakeHidden(2, 8), 2, 5, Parallelism{1});
  for (const int64_t place : {3, 4, 8, 9}) {
    EXPECT_EQ(best.rows[place], kNoRow);
    EXPECT_EQ(best.logits[place], kMinusInfinity);
  }
  EXPECT_NE(best.rows[2], kNoRow);
}

TEST(TopKTest, CandidatesAreScoredLikeTheScan) {
  const auto store = MakeRankedStore(500, 16, 0, 1);
  const std::vector<float> hidden = MakeHidden(2, 16);
  std::vector<LocalRow> rows;
  for (uint32_t row = 0; row < 500; row += 3) rows.push_back(LocalRow(row));
  ExplicitRows<LocalRow> named{.offsets = {0, 0, static_cast<uint32_t>(rows.size())}, .rows = rows};
  const ScoredRows best = CandidateTopK(RowReader(*store), hidden, named, 3, Parallelism{2});
  EXPECT_FALSE(best.exact);
  EXPECT_EQ(best.scored_rows, static_cast<int64_t>(rows.size()));
  EXPECT_EQ(best.rows[0], kNoRow) << "a query without candidates";
  std::vector<RowId> expected;
  for (const auto& [logit, row] : Sorted(*store, hidden.data() + 16)) {
    const uint32_t local = store->rows().ToLocal(row).value();
    if (local % 3 == 0 && expected.size() < 3) expected.push_back(row);
  }
  EXPECT_EQ(std::vector<RowId>(best.rows.begin() + 3, best.rows.end()), expected);

  // An offset that makes the worst of them the best.
  named.logit_offsets.assign(rows.size(), 0.0f);
  named.logit_offsets[7] = 100.0f;
  const ScoredRows shifted = CandidateTopK(RowReader(*store), hidden, named, 3, Parallelism{2});
  EXPECT_EQ(shifted.rows[3], store->rows().ToGlobal(rows[7]));
  EXPECT_GT(shifted.logits[3], 50.0f);
  EXPECT_EQ(shifted.logits[4], best.logits[3]);
}

TEST(TopRowsTest, KeepsTheBestInAnyOrderOfArrival) {
  CounterRng rng(6);
  std::vector<std::pair<float, uint32_t>> offers;
  for (uint32_t row = 0; row < 200; ++row) {
    offers.emplace_back(static_cast<float>(rng.NextBelow(40)), row);  // many ties
  }
  std::vector<RowId> first(5);
  std::vector<float> first_logits(5);
  for (int round = 0; round < 10; ++round) {
    TopRows left(5);
    TopRows right(5);
    for (size_t i = offers.size(); i > 1; --i) std::swap(offers[i - 1], offers[rng.NextBelow(i)]);
    for (size_t i = 0; i < offers.size(); ++i) {
      (i % 3 == 0 ? left : right).Offer(RowId(offers[i].second), offers[i].first);
    }
    left.Merge(right);
    std::vector<RowId> rows(5);
    std::vector<float> logits(5);
    left.Write(rows.data(), logits.data());
    if (round == 0) {
      first = rows;
      first_logits = logits;
      EXPECT_TRUE(std::is_sorted(logits.rbegin(), logits.rend()));
      EXPECT_EQ(logits[0], 39.0f);
    }
    EXPECT_EQ(rows, first);
    EXPECT_EQ(logits, first_logits);
  }
}

}  // namespace
}  // namespace dslide
