// Rows of many columns: what LongRows finds in two passes.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "core/base/counter_rng.h"
#include "core/engine/near/long_rows.h"
#include "core/partition/slot_map.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

constexpr int64_t kPassDim = LongRows::kFewColumns + 32;
constexpr int64_t kPassRows = LongRows::kFewRows + 1024;
constexpr int64_t kPassQueries = 20;
constexpr int64_t kPassRank = 24;

// `rank` directions, and vectors that lie in their space, but for noise; of no directions noise
// only.
class Space {
 public:
  explicit Space(int64_t rank) : rank_(rank), space_(static_cast<size_t>(rank * kPassDim)) {
    for (float& x : space_) x = rng_.NextGaussian();
  }

  std::vector<float> Draw(float noise) {
    std::vector<float> vector(kPassDim);
    for (float& x : vector) x = noise * rng_.NextGaussian();
    for (int64_t i = 0; i < rank_; ++i) {
      const float along = rng_.NextGaussian();
      for (int64_t j = 0; j < kPassDim; ++j) vector[j] += along * space_[i * kPassDim + j];
    }
    return vector;
  }

 private:
  CounterRng rng_{7};
  int64_t rank_;
  std::vector<float> space_;
};

struct WideHead {
  std::unique_ptr<RowStore> store;
  std::vector<std::vector<float>> queries;
  std::vector<float> mean = std::vector<float>(kPassDim + 1, 0.0f);

  RowReader reader() const { return RowReader(*store); }
  LongRows Measure(int threads = 1) const {
    return LongRows::Measure(reader(), mean, Parallelism{threads});
  }
};

WideHead MakeWide(int64_t rank, int64_t rows = kPassRows) {
  TableSpec spec;
  spec.name = "out";
  spec.role = TableRole::kHead;
  spec.rows = rows;
  spec.dim = kPassDim;
  const std::vector<double> weights(1, 1.0);
  const auto map = SlotMap::Deal(spec.num_slots, weights);
  auto store = RowStore::Create(spec, 1, ShardRows(*map, ShardId(0), rows), Parallelism{1});
  EXPECT_TRUE(store.ok()) << store.status();
  WideHead head;
  head.store = *std::move(store);
  const RowUpdate update = head.store->BeginUpdate(Step(1), 1e6f);
  Space space(rank);
  for (int64_t i = 0; i < rows; ++i) {
    const std::vector<float> row = space.Draw(0.2f);
    EXPECT_TRUE(head.store->ChangeWeights(LocalRow(static_cast<uint32_t>(i)),
                                          RowStore::Change::kAssign, row.data(), 0.01f, update));
  }
  for (int64_t i = 0; i < kPassQueries; ++i) head.queries.push_back(space.Draw(0.2f));
  return head;
}

// The rows with the largest logits, by plain sums.
std::vector<LocalRow> BestByScan(const WideHead& head, const std::vector<float>& query,
                                 int64_t count) {
  std::vector<std::pair<double, LocalRow>> order;
  for (int64_t i = 0; i < head.store->num_rows(); ++i) {
    const LocalRow row(static_cast<uint32_t>(i));
    std::vector<float> scratch(static_cast<size_t>(head.store->stride()));
    const float* const weights = head.reader().Weights(row, scratch.data());
    double logit = head.store->Bias(row);
    for (int64_t j = 0; j < kPassDim; ++j) logit += double{weights[j]} * query[j];
    order.emplace_back(-logit, row);
  }
  std::sort(order.begin(), order.end());
  std::vector<LocalRow> rows;
  for (int64_t i = 0; i < count; ++i) rows.push_back(order[i].second);
  return rows;
}

double RecallOfTen(const WideHead& head, const LongRows& rows, int64_t count) {
  LongRowsScratch scratch;
  int64_t hits = 0;
  for (const std::vector<float>& query : head.queries) {
    std::vector<LocalRow> found;
    rows.FindNear(query, count, scratch, found);
    EXPECT_EQ(static_cast<int64_t>(found.size()), count);
    EXPECT_EQ(std::set<LocalRow>(found.begin(), found.end()).size(), found.size());
    for (const LocalRow row : BestByScan(head, query, 10)) {
      hits += std::find(found.begin(), found.end(), row) != found.end() ? 1 : 0;
    }
  }
  return static_cast<double>(hits) / (10.0 * kPassQueries);
}

TEST(FirstPassTest, FindsTheBestOfRowsOfFewDimensions) {
  const WideHead head = MakeWide(kPassRank);
  const LongRows rows = head.Measure();
  ASSERT_TRUE(rows.has_first_pass());
  EXPECT_GE(RecallOfTen(head, rows, 50), 0.99);
}

TEST(FirstPassTest, RowsOfManyDimensionsHaveNone) {
  const WideHead head = MakeWide(0);
  const LongRows rows = head.Measure();
  EXPECT_FALSE(rows.has_first_pass());
  EXPECT_GE(RecallOfTen(head, rows, 50), 0.99);
}

TEST(FirstPassTest, FewRowsHaveNone) {
  EXPECT_FALSE(MakeWide(kPassRank, LongRows::kFewRows - 1).Measure().has_first_pass());
}

TEST(FirstPassTest, WhoWantsManyRowsIsGivenThemWithoutOne) {
  const WideHead head = MakeWide(kPassRank);
  const LongRows rows = head.Measure();
  LongRowsScratch scratch;
  for (const int64_t count : {kPassRows / 2 + 1, kPassRows - 1, kPassRows, 2 * kPassRows}) {
    std::vector<LocalRow> found;
    rows.FindNear(head.queries[0], count, scratch, found);
    EXPECT_EQ(static_cast<int64_t>(found.size()), std::min(count, kPassRows));
  }
}

TEST(FirstPassTest, ARowThatCannotBeRoundedIsFound) {
  const WideHead head = MakeWide(kPassRank);
  const LocalRow odd(1234);
  std::vector<float> weights(kPassDim, 0.0f);
  weights[1] = -1e20f;
  ASSERT_TRUE(head.store->ChangeWeights(odd, RowStore::Change::kAssign, weights.data(), 0.0f,
                                        head.store->BeginUpdate(Step(2), 1e30f)));
  const LongRows rows = head.Measure();
  LongRowsScratch scratch;
  std::vector<LocalRow> found;
  rows.FindNear(head.queries[0], 20, scratch, found);
  EXPECT_TRUE(rows.has_first_pass());
  EXPECT_THAT(found, ::testing::Contains(odd));
}

TEST(FirstPassTest, DoesNotDependOnThreads) {
  const WideHead head = MakeWide(kPassRank);
  const LongRows one = head.Measure(1);
  const LongRows three = head.Measure(3);
  LongRowsScratch scratch;
  for (const std::vector<float>& query : head.queries) {
    std::vector<LocalRow> found_by_one;
    std::vector<LocalRow> found_by_three;
    one.FindNear(query, 30, scratch, found_by_one);
    three.FindNear(query, 30, scratch, found_by_three);
    EXPECT_EQ(found_by_one, found_by_three);
  }
}

}  // namespace
}  // namespace dslide
