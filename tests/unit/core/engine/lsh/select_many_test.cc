// Selections of several queries at a time, which overlap, against one after the other.

#include <vector>

#include "core/base/counter_rng.h"
#include "core/engine/lsh/hash_index.h"
#include "gtest/gtest.h"
#include "tests/unit/core/engine/lsh/test_rows.h"

namespace dslide {
namespace {

constexpr int64_t kSelectManyDim = 24;
constexpr int64_t kSelectManyRows = 500;
constexpr int64_t kQueries = 13;

// ranked_per_active: without sketches and with them.
class SelectManyTest : public ::testing::TestWithParam<int64_t> {
 protected:
  SelectManyTest() : index_(MakeIndex()) {
    const TestRows hidden = TestRows::Random(kQueries, kSelectManyDim, 31);
    std::vector<float> flat;
    for (const auto& row : hidden.weights) flat.insert(flat.end(), row.begin(), row.end());
    fingerprints_.resize(kQueries * index_->family().num_tables());
    index_->family().HashQueries(flat, kQueries, Parallelism{}, absl::MakeSpan(fingerprints_));
    CounterRng rng(32);
    for (std::vector<LocalRow>& labels : labels_) {
      for (uint32_t row = 0; row < kSelectManyRows;
           row += 1 + static_cast<uint32_t>(rng.NextBelow(250))) {
        labels.emplace_back(row);
      }
    }
  }

  static std::unique_ptr<HashIndex> MakeIndex() {
    HashSpec spec = CoarseSpec(HashFamilyKind::kSimHash);
    spec.ranked_per_active = GetParam();
    spec.bucket_read_cap = 40;
    return *HashIndex::Create(spec, kSelectManyDim);
  }

  void Build() {
    index_->Build(TestRows::Random(kSelectManyRows, kSelectManyDim, 30), {}, Refresh::kYes,
                  Parallelism{1});
  }

  std::vector<HashQuery> Queries() const {
    const auto tables = static_cast<size_t>(index_->family().num_tables());
    std::vector<HashQuery> queries;
    for (size_t q = 0; q < kQueries; ++q) {
      queries.push_back(
          {absl::MakeConstSpan(fingerprints_).subspan(q * tables, tables), labels_[q]});
    }
    return queries;
  }

  void ExpectEachAsAlone(int64_t budget) {
    const std::vector<HashQuery> queries = Queries();
    for (size_t count = 0; count <= queries.size(); ++count) {
      std::vector<Selection> together(count);
      index_->Select(absl::MakeConstSpan(queries).subspan(0, count), budget, scratch_,
                     absl::MakeSpan(together));
      for (size_t q = 0; q < count; ++q) {
        SelectScratch fresh;
        Selection alone;
        index_->Select(queries[q].fingerprints, queries[q].labels, budget, fresh, alone);
        EXPECT_EQ(together[q].active, alone.active) << q << " of " << count;
        EXPECT_EQ(together[q].missed_labels, alone.missed_labels) << q << " of " << count;
      }
    }
  }

  std::unique_ptr<HashIndex> index_;
  std::vector<uint32_t> fingerprints_;
  std::vector<std::vector<LocalRow>> labels_ = std::vector<std::vector<LocalRow>>(kQueries);
  SelectScratch scratch_;
};

TEST_P(SelectManyTest, SelectsForEachWhatItSelectsAlone) {
  Build();
  for (const int64_t budget : {0, 3, 20, 400}) ExpectEachAsAlone(budget);
}

TEST_P(SelectManyTest, SelectsTheLabelsBeforeTheFirstBuild) {
  ExpectEachAsAlone(20);
  std::vector<Selection> selections(kQueries);
  index_->Select(Queries(), 20, scratch_, absl::MakeSpan(selections));
  for (int64_t q = 0; q < kQueries; ++q) {
    EXPECT_EQ(selections[q].active, labels_[q]);
    EXPECT_EQ(selections[q].missed_labels, labels_[q]);
  }
}

INSTANTIATE_TEST_SUITE_P(RankedPerActive, SelectManyTest, ::testing::Values(0, 2),
                         [](const auto& ranked) { return std::to_string(ranked.param); });

}  // namespace
}  // namespace dslide
