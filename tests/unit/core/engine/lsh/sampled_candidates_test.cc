// Candidates that are drawn at random beyond the best, against selections without a draw.

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "core/base/counter_rng.h"
#include "core/engine/lsh/candidate_draw.h"
#include "core/engine/lsh/hash_index.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/core/engine/lsh/test_rows.h"

namespace dslide {
namespace {

using ::testing::IsEmpty;

constexpr int64_t kDrawnDim = 24;
constexpr int64_t kDrawnRows = 500;
constexpr int64_t kDrawnQueries = 13;
constexpr int64_t kEverything = 100'000;

// ranked_per_active: without sketches and with them.
class SampledCandidatesTest : public ::testing::TestWithParam<int64_t> {
 protected:
  SampledCandidatesTest() {
    HashSpec spec = CoarseSpec(HashFamilyKind::kSimHash);
    spec.ranked_per_active = GetParam();
    index_ = *HashIndex::Create(spec, kDrawnDim);
    const TestRows hidden = TestRows::Random(kDrawnQueries, kDrawnDim, 31);
    std::vector<float> flat;
    for (const auto& row : hidden.weights) flat.insert(flat.end(), row.begin(), row.end());
    fingerprints_.resize(kDrawnQueries * index_->family().num_tables());
    index_->family().HashQueries(flat, kDrawnQueries, Parallelism{}, absl::MakeSpan(fingerprints_));
    CounterRng rng(32);
    for (std::vector<LocalRow>& labels : labels_) {
      for (uint32_t row = 0; row < kDrawnRows;
           row += 1 + static_cast<uint32_t>(rng.NextBelow(250))) {
        labels.emplace_back(row);
      }
    }
    index_->Build(TestRows::Random(kDrawnRows, kDrawnDim, 30), {}, Refresh::kYes, Parallelism{1});
  }

  HashQuery Query(size_t q, int64_t drawn = 0, uint64_t key = 0) const {
    const auto tables = static_cast<size_t>(index_->family().num_tables());
    return {.fingerprints = absl::MakeConstSpan(fingerprints_).subspan(q * tables, tables),
            .labels = labels_[q],
            .drawn = drawn,
            .draw_key = key};
  }

  Selection Select(const HashQuery& query, int64_t budget) {
    Selection selection;
    index_->Select({&query, 1}, budget, scratch_, {&selection, 1});
    return selection;
  }

  static std::set<LocalRow> AsSet(const std::vector<LocalRow>& rows) {
    return {rows.begin(), rows.end()};
  }

  std::unique_ptr<HashIndex> index_;
  std::vector<uint32_t> fingerprints_;
  std::vector<std::vector<LocalRow>> labels_ = std::vector<std::vector<LocalRow>>(kDrawnQueries);
  SelectScratch scratch_;
};

TEST_P(SampledCandidatesTest, TheBestAreThoseOfASmallerBudgetAndTheOthersAreDrawnFromTheRest) {
  for (size_t q = 0; q < kDrawnQueries; ++q) {
    const auto labels = static_cast<int64_t>(labels_[q].size());
    for (const auto& [places, drawn] : {std::pair{20, 8}, {20, 19}, {9, 9}, {60, 1}}) {
      const Selection selection = Select(Query(q, drawn, 77), labels + places);
      const std::set<LocalRow> active = AsSet(selection.active);
      ASSERT_EQ(active.size(), selection.active.size()) << "no row twice";
      // With sketches a smaller budget has fewer rows ranked, and may have others as its best.
      const bool all_ranked = GetParam() == 0;
      const Selection best = Select(Query(q), labels + places - (all_ranked ? drawn : 0));
      for (const LocalRow row : best.active) EXPECT_TRUE(!all_ranked || active.count(row) == 1);
      if (selection.drawn == 0) {
        EXPECT_LE(selection.active.size(), static_cast<size_t>(labels + places));
        EXPECT_THAT(selection.left_out, IsEmpty());
        continue;
      }
      EXPECT_EQ(selection.active.size(), static_cast<size_t>(labels + places));
      EXPECT_EQ(selection.drawn, drawn);
      std::set<LocalRow> rest(selection.active.end() - drawn, selection.active.end());
      const std::set<LocalRow> of_the_best = AsSet(best.active);
      for (const LocalRow row : selection.active) {
        EXPECT_TRUE(rest.count(row) > 0 || of_the_best.count(row) > 0);
        EXPECT_TRUE(!all_ranked || rest.count(row) == 0 || of_the_best.count(row) == 0);
      }
      rest.insert(selection.left_out.begin(), selection.left_out.end());
      EXPECT_EQ(static_cast<int64_t>(rest.size()), selection.drawn_from);
      if (!all_ranked) continue;
      // Without sketches every row that was read is ranked: all that a budget of any size takes.
      std::set<LocalRow> everything = AsSet(best.active);
      everything.insert(rest.begin(), rest.end());
      EXPECT_EQ(everything, AsSet(Select(Query(q), kEverything).active));
    }
  }
}

TEST_P(SampledCandidatesTest, WhatIsDrawnFollowsFromTheKeyAlone) {
  std::vector<HashQuery> queries;
  for (size_t q = 0; q < kDrawnQueries; ++q) queries.push_back(Query(q, 8, 100 + q));
  std::vector<Selection> expected(kDrawnQueries);
  index_->Select(queries, 30, scratch_, absl::MakeSpan(expected));
  for (const int threads : {1, 2, 4}) {
    std::vector<Selection> selections(kDrawnQueries);
    std::vector<SelectScratch> scratch(threads);
    index_->SelectEach(queries, 30, Parallelism{threads}, absl::MakeSpan(scratch),
                       absl::MakeSpan(selections));
    for (size_t q = 0; q < kDrawnQueries; ++q) {
      EXPECT_EQ(AsSet(selections[q].active), AsSet(expected[q].active));
      EXPECT_EQ(AsSet(Select(queries[q], 30).active), AsSet(expected[q].active)) << "alone";
    }
  }
  int64_t others = 0;
  for (size_t q = 0; q < kDrawnQueries; ++q) {
    others += AsSet(Select(Query(q, 8, 500 + q), 30).active) != AsSet(expected[q].active);
  }
  EXPECT_GT(others, kDrawnQueries / 2) << "another key draws others";
}

TEST_P(SampledCandidatesTest, BudgetsWithoutRoomDrawNothing) {
  for (const int64_t budget : {0, 1}) {
    const Selection selection = Select(Query(1, 8, 3), budget);
    EXPECT_EQ(selection.active, labels_[1]);
    EXPECT_EQ(selection.drawn, 0);
  }
  const Selection all = Select(Query(1, 8, 3), kEverything);
  EXPECT_EQ(AsSet(all.active), AsSet(Select(Query(1), kEverything).active));
  EXPECT_EQ(all.drawn, 0);
}

INSTANTIATE_TEST_SUITE_P(RankedPerActive, SampledCandidatesTest, ::testing::Values(0, 2),
                         [](const auto& ranked) { return std::to_string(ranked.param); });

// Each of 40 rows is drawn with probability 1/4: in 4,000 draws 1,000 times, give or take
// sqrt(4000 * 3/16) = 27; five times that is passed by chance less than once in 10,000 such tests.
TEST(DrawRowsTest, EveryRowIsDrawnEquallyOften) {
  std::vector<std::pair<uint64_t, LocalRow>> scratch;
  std::map<LocalRow, int> drawn;
  for (uint64_t key = 0; key < 4000; ++key) {
    std::vector<LocalRow> rows;
    for (uint32_t row = 0; row < 40; ++row) rows.emplace_back(7 * row);
    if (key % 2 == 1) std::reverse(rows.begin(), rows.end());
    DrawRows(absl::MakeSpan(rows), 10, key, scratch);
    for (size_t i = 0; i < 10; ++i) ++drawn[rows[i]];
    EXPECT_EQ((std::set<LocalRow>(rows.begin(), rows.end()).size()), 40u);
  }
  EXPECT_EQ(drawn.size(), 40u);
  for (const auto& [row, times] : drawn) EXPECT_NEAR(times, 1000, 135) << row;
}

}  // namespace
}  // namespace dslide
