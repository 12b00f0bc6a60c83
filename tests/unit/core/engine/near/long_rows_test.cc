#include "core/engine/near/long_rows.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "core/base/counter_rng.h"
#include "core/engine/math/kernels.h"
#include "core/engine/model/head_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kLongDim = 24;
constexpr int64_t kLongQueries = 70;

TableSpec LongSpec(int64_t rows) {
  TableSpec spec;
  spec.name = "out";
  spec.role = TableRole::kHead;
  spec.rows = rows;
  spec.dim = kLongDim;
  spec.head.max_active = 40;
  spec.head.hash.codes_per_table = 5;
  spec.head.hash.num_tables = 6;
  return spec;
}

// Every tenth row is up to four times as long as the others.
std::unique_ptr<HeadTable> LongHead(int64_t rows) {
  const TableSpec spec = LongSpec(rows);
  const std::vector<double> weights(1, 1.0);
  const auto map = SlotMap::Deal(spec.num_slots, weights);
  auto head = HeadTable::Create(spec, 1, ShardRows(*map, ShardId(0), rows), Parallelism{1});
  EXPECT_TRUE(head.ok()) << head.status();
  const RowUpdate update = (*head)->store().BeginUpdate(Step(1), 1e6f);
  CounterRng rng(9);
  std::vector<float> values(kLongDim);
  for (int64_t i = 0; i < rows; ++i) {
    const float scale = i % 10 == 0 ? 2.0f + 0.2f * static_cast<float>(i % 97 % 11) : 1.0f;
    for (float& value : values) value = scale * rng.NextGaussian();
    EXPECT_TRUE((*head)->store().ChangeWeights(LocalRow(static_cast<uint32_t>(i)),
                                               RowStore::Change::kAssign, values.data(), 0.0f,
                                               update));
  }
  (*head)->ResetAfterLoad(Step(1), Parallelism{1});
  return *std::move(head);
}

struct LongQueries {
  std::vector<float> hidden;
  std::vector<uint32_t> fingerprints;
};

LongQueries MakeLongQueries(const HeadTable& head) {
  LongQueries queries;
  CounterRng rng(3);
  for (int64_t i = 0; i < kLongQueries * kLongDim; ++i) {
    queries.hidden.push_back(std::max(0.0f, rng.NextGaussian()));
  }
  const HashFamily& family = head.index()->family();
  queries.fingerprints.resize(kLongQueries * family.num_tables());
  family.HashQueries(queries.hidden, kLongQueries, Parallelism{1},
                     absl::MakeSpan(queries.fingerprints));
  return queries;
}

double SquaredLength(const HeadTable& head, LocalRow row) {
  const absl::Span<const float> mean = head.index()->mean();
  const double bias = head.store().Bias(row) - mean[kLongDim];
  double sum = bias * bias;
  for (int64_t i = 0; i < kLongDim; ++i) {
    const double x = head.store().Weights(row)[i] - mean[i];
    sum += x * x;
  }
  return sum;
}

// Shares of the exact ten best rows that a search with this budget finds.
double RecallWith(const HeadTable& head, const LongQueries& queries, int64_t budget) {
  const ScoredRows exact = head.TopK(queries.hidden, kLongQueries, 10, {}, Parallelism{1});
  const ScoredRows hashed =
      head.TopK(queries.hidden, kLongQueries, 10, queries.fingerprints, Parallelism{1}, budget);
  EXPECT_FALSE(hashed.exact);
  int64_t found = 0;
  for (int64_t q = 0; q < kLongQueries; ++q) {
    EXPECT_LE(hashed.by_query[q], budget);
    const auto begin = hashed.rows.begin() + q * 10;
    for (int64_t i = q * 10; i < (q + 1) * 10; ++i) {
      found += std::find(begin, begin + 10, exact.rows[i]) != begin + 10 ? 1 : 0;
    }
  }
  return static_cast<double>(found) / (10.0 * kLongQueries);
}

TEST(LongRowsTest, AreTheLongestOnceCentred) {
  constexpr int64_t kRows = LongRows::kMost + 3000;
  const auto head = LongHead(kRows);
  const LongRows rows =
      LongRows::Measure(RowReader(head->store()), head->index()->mean(), Parallelism{1});
  ASSERT_EQ(static_cast<int64_t>(rows.rows().size()), LongRows::kMost);
  EXPECT_TRUE(std::is_sorted(rows.rows().begin(), rows.rows().end()));
  double shortest = 1e30;
  double longest_left_out = 0;
  for (int64_t i = 0; i < kRows; ++i) {
    const LocalRow row(static_cast<uint32_t>(i));
    const double square = SquaredLength(*head, row);
    if (rows.Has(row)) {
      shortest = std::min(shortest, square);
    } else {
      longest_left_out = std::max(longest_left_out, square);
    }
  }
  EXPECT_GE(shortest, longest_left_out * (1 - 1e-5));
  EXPECT_EQ(
      LongRows::Measure(RowReader(head->store()), head->index()->mean(), Parallelism{3}).rows(),
      rows.rows());
}

TEST(LongRowsTest, AShardHasItsShareOfThem) {
  const TableSpec spec = LongSpec(3 * LongRows::kMost);
  const auto map = SlotMap::Deal(spec.num_slots, {1.0, 2.0});
  int64_t kept = 0;
  for (const int shard : {0, 1}) {
    const ShardRows held(*map, ShardId(shard), spec.rows);
    const int64_t num_rows = held.num_rows();
    const auto head = HeadTable::Create(spec, 1, held, Parallelism{1});
    ASSERT_TRUE(head.ok()) << head.status();
    const LongRows rows =
        LongRows::Measure(RowReader((*head)->store()), (*head)->index()->mean(), Parallelism{1});
    EXPECT_EQ(static_cast<int64_t>(rows.rows().size()), (num_rows + 2) / 3);
    kept += static_cast<int64_t>(rows.rows().size());
  }
  EXPECT_LE(kept, LongRows::kMost + 1);
}

TEST(LongRowsTest, ThoseThatAreLeftOutAreNoneOfThem) {
  const auto head = LongHead(600);
  std::vector<uint8_t> left_out(600, 0);
  std::fill(left_out.begin() + 50, left_out.begin() + 550, 1);
  const LongRows rows =
      LongRows::Measure(RowReader(head->store()), head->index()->mean(), Parallelism{1}, left_out);
  ASSERT_EQ(rows.rows().size(), 100u);
  EXPECT_EQ(rows.rows()[49], LocalRow(49));
  EXPECT_EQ(rows.rows()[50], LocalRow(550));
  std::fill(left_out.begin(), left_out.end(), 1);
  const LongRows none =
      LongRows::Measure(RowReader(head->store()), head->index()->mean(), Parallelism{1}, left_out);
  LongRowsScratch scratch;
  std::vector<LocalRow> found;
  none.FindNear(MakeLongQueries(*head).hidden, 5, scratch, found);
  EXPECT_TRUE(found.empty());
}

TEST(LongRowsTest, TheNearOnesAreThoseOfASort) {
  const auto head = LongHead(600);
  const LongQueries queries = MakeLongQueries(*head);
  const LongRows rows =
      LongRows::Measure(RowReader(head->store()), head->index()->mean(), Parallelism{1});
  LongRowsScratch scratch;
  for (int64_t q = 0; q < kLongQueries; ++q) {
    const auto mine = absl::MakeConstSpan(queries.hidden).subspan(q * kLongDim, kLongDim);
    double sum = 0;
    for (const float x : mine) sum += std::abs(x);
    double longest = 0;
    std::vector<std::pair<double, LocalRow>> order;
    for (const LocalRow row : rows.rows()) {
      const float* const weights = head->store().Weights(row);
      order.emplace_back(-Dot(weights, mine.data(), kLongDim) - head->store().Bias(row), row);
      longest = std::max(longest, double{std::sqrt(SumOfSquares(weights, kLongDim))});
    }
    std::sort(order.begin(), order.end());
    // What rounding the longest row to 8 bits can do, twice: to it and to another.
    const double rounding = longest / 120 * sum;
    for (const int64_t count : {0, 1, 50, 599, 600, 700}) {
      std::vector<LocalRow> found;
      rows.FindNear(mine, count, scratch, found);
      ASSERT_EQ(static_cast<int64_t>(found.size()), std::min<int64_t>(count, 600));
      EXPECT_EQ(std::set<LocalRow>(found.begin(), found.end()).size(), found.size());
      if (count == 0 || count >= 600) continue;
      const double least = -order[count - 1].first;
      for (const auto& [negated, row] : order) {
        const bool has = std::find(found.begin(), found.end(), row) != found.end();
        if (-negated > least + rounding) {
          EXPECT_TRUE(has) << row.value();
        } else if (-negated < least - rounding) {
          EXPECT_FALSE(has) << row.value();
        }
      }
    }
  }
}

TEST(LongRowsTest, ALargerBudgetFindsMoreUntilItFindsAll) {
  const auto head = LongHead(3000);
  const LongQueries queries = MakeLongQueries(*head);
  const double few = RecallWith(*head, queries, 10);
  const double more = RecallWith(*head, queries, 40);
  EXPECT_GT(more, few);
  EXPECT_GE(more, 0.95);
  EXPECT_EQ(RecallWith(*head, queries, 3000), 1.0);
}

TEST(LongRowsTest, QueriesThatAreNoNumbersFindTheLargestBiases) {
  const auto head = LongHead(100);
  const LocalRow biased(42);
  const std::vector<float> zeros(kLongDim, 0.0f);
  ASSERT_TRUE(head->store().ChangeWeights(biased, RowStore::Change::kAssign, zeros.data(), 7.0f,
                                          head->store().BeginUpdate(Step(2), 1e6f)));
  const LongRows rows =
      LongRows::Measure(RowReader(head->store()), head->index()->mean(), Parallelism{1});
  LongRowsScratch scratch;
  for (const float odd : {0.0f, std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(), 1e30f}) {
    std::vector<float> hidden(kLongDim, 0.0f);
    hidden[5] = odd;
    std::vector<LocalRow> found;
    rows.FindNear(hidden, 1, scratch, found);
    EXPECT_THAT(found, ElementsAre(biased)) << odd;
  }
}

TEST(LongRowsTest, ASearchDoesNotDependOnThreads) {
  const auto head = LongHead(3000);
  const LongQueries queries = MakeLongQueries(*head);
  const ScoredRows one =
      head->TopK(queries.hidden, kLongQueries, 10, queries.fingerprints, Parallelism{1}, 200);
  const ScoredRows four =
      head->TopK(queries.hidden, kLongQueries, 10, queries.fingerprints, Parallelism{4}, 200);
  EXPECT_EQ(one.rows, four.rows);
  EXPECT_EQ(one.logits, four.logits);
  EXPECT_EQ(one.by_query, four.by_query);
}

TEST(LongRowsTest, ASearchSeesRowsThatWereHashedAgain) {
  const auto head = LongHead(600);
  const LongQueries queries = MakeLongQueries(*head);
  const auto best = [&] {
    return head
        ->TopK(absl::MakeConstSpan(queries.hidden).subspan(0, kLongDim), 1, 1,
               absl::MakeConstSpan(queries.fingerprints).subspan(0, 6), Parallelism{1}, 20)
        .rows.front();
  };
  const LocalRow changed(77);
  ASSERT_NE(best(), head->store().rows().ToGlobal(changed));
  std::vector<float> values(queries.hidden.begin(), queries.hidden.begin() + kLongDim);
  for (float& value : values) value *= 20.0f;
  ASSERT_TRUE(head->store().ChangeWeights(changed, RowStore::Change::kAssign, values.data(), 0.0f,
                                          head->store().BeginUpdate(Step(2), 1e6f)));
  head->ResetAfterLoad(Step(2), Parallelism{1});
  EXPECT_EQ(best(), head->store().rows().ToGlobal(changed));
}

}  // namespace
}  // namespace dslide
