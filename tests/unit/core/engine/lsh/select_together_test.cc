// Selections of a batch whose samples share their candidates.

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"
#include "core/engine/lsh/hash_index.h"
#include "gtest/gtest.h"
#include "tests/reference/lsh_reference.h"
#include "tests/unit/core/engine/lsh/test_rows.h"

namespace dslide {
namespace {

constexpr int64_t kPoolDim = 24;
constexpr int64_t kPoolRows = 500;
constexpr int64_t kPoolQueries = 37;  // of two whole grains and a part

// Family; ranked_per_active: without sketches and with them.
class SelectTogetherTest : public ::testing::TestWithParam<std::tuple<HashFamilyKind, int64_t>> {
 protected:
  SelectTogetherTest() {
    spec_.ranked_per_active = std::get<1>(GetParam());
    spec_.bucket_read_cap = 40;
    index_ = *HashIndex::Create(spec_, kPoolDim);
    flat_.resize(kPoolQueries * spec_.num_tables);
    index_->family().HashQueries(RandomHidden(kPoolQueries, kPoolDim, 0.4, 31), kPoolQueries,
                                 Parallelism{}, absl::MakeSpan(flat_));
    CounterRng rng(32);
    for (std::vector<LocalRow>& labels : labels_) {
      const uint64_t step = 1 + rng.NextBelow(250);
      for (uint64_t row = rng.NextBelow(300); row < kPoolRows; row += step) {
        labels.emplace_back(static_cast<uint32_t>(row));
      }
    }
    labels_[5].clear();
  }

  void Build() {
    index_->Build(TestRows::Random(kPoolRows, kPoolDim, 30), {}, Refresh::kYes, Parallelism{1});
    const auto words = index_->Save().codes;
    RowCodes codes;
    const int64_t bits = FingerprintBits(spec_);
    codes.Reset(spec_.num_tables, spec_.codes_per_table, bits / spec_.codes_per_table, kPoolRows);
    codes.SetWords(words);
    row_fingerprints_.assign(kPoolRows, {});
    for (int64_t row = 0; row < kPoolRows; ++row) {
      for (int64_t t = 0; t < spec_.num_tables; ++t) {
        row_fingerprints_[row].push_back(codes.Fingerprints(t)[row]);
      }
    }
  }

  std::vector<HashQuery> Queries(int64_t count) const {
    const auto tables = static_cast<size_t>(spec_.num_tables);
    std::vector<HashQuery> queries;
    for (int64_t q = 0; q < count; ++q) {
      queries.push_back({absl::MakeConstSpan(flat_).subspan(q * tables, tables), labels_[q]});
    }
    return queries;
  }

  std::vector<Selection> SelectTogether(int64_t count, int64_t budget, int64_t proposals,
                                        int threads = 1) {
    scratch_.resize(std::max<size_t>(scratch_.size(), threads));
    std::vector<Selection> selections(count);
    index_->SelectTogether(Queries(count), budget, proposals, Parallelism{threads},
                           absl::MakeSpan(scratch_), pool_, absl::MakeSpan(selections));
    return selections;
  }

  HashSpec spec_ = CoarseSpec(std::get<0>(GetParam()));
  std::unique_ptr<HashIndex> index_;
  std::vector<uint32_t> flat_;                           // [kPoolQueries, L]
  std::vector<std::vector<uint32_t>> row_fingerprints_;  // [kPoolRows][L]
  std::vector<std::vector<LocalRow>> labels_ = std::vector<std::vector<LocalRow>>(kPoolQueries);
  std::vector<SelectScratch> scratch_;
  CandidatePool pool_;
};

// One pool and scratch for all of them: nothing may stay from batch to batch.
TEST_P(SelectTogetherTest, SelectsWhatTheReferenceSelects) {
  Build();
  for (const int64_t count : {kPoolQueries, int64_t{1}, int64_t{16}}) {
    std::vector<std::vector<uint32_t>> queries;
    for (const HashQuery& query : Queries(count)) {
      queries.emplace_back(query.fingerprints.begin(), query.fingerprints.end());
    }
    const std::vector<std::vector<LocalRow>> labels(labels_.begin(), labels_.begin() + count);
    for (const int64_t budget : {0, 1, 3, 20, 80, 1000}) {
      for (const int64_t proposals : {1, 5, 60}) {
        spec_.proposed_per_sample = proposals;
        const auto expected =
            reference::SelectTogether(spec_, row_fingerprints_, queries, labels, budget);
        std::vector<Selection> got = SelectTogether(count, budget, proposals);
        for (int64_t q = 0; q < count; ++q) {
          const std::string what = absl::StrCat(q, " of ", count, " budget ", budget);
          std::vector<LocalRow>& active = got[q].active;
          ASSERT_GE(active.size(), labels[q].size());
          EXPECT_TRUE(std::equal(labels[q].begin(), labels[q].end(), active.begin())) << what;
          std::sort(active.begin(), active.end());
          EXPECT_EQ(active, expected[q].active) << what << " proposals " << proposals;
          EXPECT_EQ(got[q].missed_labels, expected[q].missed_labels) << what;
        }
      }
    }
  }
}

TEST_P(SelectTogetherTest, DoesNotDependOnTheThreads) {
  Build();
  const std::vector<Selection> one = SelectTogether(kPoolQueries, 30, 4);
  for (const int threads : {2, 3, 8}) {
    const std::vector<Selection> several = SelectTogether(kPoolQueries, 30, 4, threads);
    for (int64_t q = 0; q < kPoolQueries; ++q) {
      EXPECT_EQ(several[q].active, one[q].active) << q << ", " << threads << " threads";
      EXPECT_EQ(several[q].missed_labels, one[q].missed_labels);
    }
  }
}

TEST_P(SelectTogetherTest, LabelsThatNeedNotBeJudgedAreNot) {
  Build();
  const std::vector<Selection> judged = SelectTogether(kPoolQueries, 30, 4);
  std::vector<HashQuery> queries = Queries(kPoolQueries);
  for (HashQuery& query : queries) query.judge_labels = false;
  std::vector<Selection> selections(kPoolQueries);
  index_->SelectTogether(queries, 30, 4, Parallelism{1}, absl::MakeSpan(scratch_), pool_,
                         absl::MakeSpan(selections));
  int64_t missed = 0;
  for (int64_t q = 0; q < kPoolQueries; ++q) {
    missed += static_cast<int64_t>(judged[q].missed_labels.size());
    EXPECT_EQ(selections[q].active, judged[q].active);
    EXPECT_TRUE(selections[q].missed_labels.empty());
  }
  EXPECT_GT(missed, 0);
}

// Fewer distinct rows than samples that select alone touch.
TEST_P(SelectTogetherTest, SharesRows) {
  Build();
  scratch_.resize(1);
  const auto distinct = [](const std::vector<Selection>& selections) {
    std::set<LocalRow> rows;
    for (const Selection& s : selections) rows.insert(s.active.begin(), s.active.end());
    return rows.size();
  };
  std::vector<Selection> alone(kPoolQueries);
  index_->SelectEach(Queries(kPoolQueries), 30, Parallelism{1}, absl::MakeSpan(scratch_),
                     absl::MakeSpan(alone));
  EXPECT_LT(distinct(SelectTogether(kPoolQueries, 30, 2)), distinct(alone));
}

// Every sample's proposals make room for the budget together.
TEST_P(SelectTogetherTest, SmallBatchesFillTheirBudgetToo) {
  Build();
  for (const Selection& selection : SelectTogether(1, 50, 1)) {
    EXPECT_GE(selection.active.size(), 50);
  }
}

TEST_P(SelectTogetherTest, SelectsTheLabelsBeforeTheFirstBuild) {
  const std::vector<Selection> selections = SelectTogether(kPoolQueries, 20, 4);
  for (int64_t q = 0; q < kPoolQueries; ++q) {
    EXPECT_EQ(selections[q].active, labels_[q]);
    EXPECT_EQ(selections[q].missed_labels, labels_[q]);
  }
}

TEST_P(SelectTogetherTest, OfNobodyIsNothing) {
  Build();
  EXPECT_TRUE(SelectTogether(0, 20, 4).empty());
}

INSTANTIATE_TEST_SUITE_P(
    Families, SelectTogetherTest,
    ::testing::Combine(::testing::Values(HashFamilyKind::kSimHash, HashFamilyKind::kDwta),
                       ::testing::Values(0, 2)),
    [](const auto& param) {
      return absl::StrCat(std::get<0>(param.param) == HashFamilyKind::kSimHash ? "SimHash" : "Dwta",
                          std::get<1>(param.param));
    });

}  // namespace
}  // namespace dslide
