#include "core/engine/lsh/index_state.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "core/engine/lsh/hash_index.h"
#include "tests/unit/core/engine/lsh/test_rows.h"

namespace dslide {
namespace {

constexpr int64_t kStateDim = 24;
constexpr int64_t kIndexStateRows = 700;

class IndexStateTest : public ::testing::TestWithParam<HashFamilyKind> {
 protected:
  std::unique_ptr<HashIndex> MakeIndex() const { return *HashIndex::Create(spec_, kStateDim); }
  std::vector<LocalRow> AllBuckets(const HashIndex& index) const {
    std::vector<LocalRow> rows;
    for (int64_t t = 0; t < spec_.num_tables; ++t) {
      for (uint32_t f = 0; f < uint32_t{1} << index.family().fingerprint_bits(); ++f) {
        const std::vector<LocalRow> bucket = index.Bucket(t, f);
        rows.insert(rows.end(), bucket.begin(), bucket.end());
        rows.emplace_back(uint32_t{kIndexStateRows});  // where a bucket ends
      }
    }
    return rows;
  }
  // Every third row from `first` on is another one now.
  std::vector<LocalRow> Change(uint32_t first, float by) {
    std::vector<LocalRow> dirty;
    for (uint32_t r = first; r < kIndexStateRows; r += 3) {
      for (float& weight : rows_.weights[r]) weight = by - weight;
      dirty.emplace_back(r);
    }
    return dirty;
  }

  HashSpec spec_ = CoarseSpec(GetParam());
  TestRows rows_ = TestRows::Random(kIndexStateRows, kStateDim, 31);
};

TEST_P(IndexStateTest, ARestoredIndexIsTheOneThatWasSaved) {
  const auto index = MakeIndex();
  index->Build(rows_, {}, Refresh::kYes, Parallelism{1});
  index->StartBuild(rows_, Change(0, 0.1f), Refresh::kNo, Parallelism{1});
  index->FinishBuild();
  Change(1, 0.2f);  // after the rows were hashed: the saved tables do not know of it
  const auto restored = MakeIndex();
  ASSERT_TRUE(restored->Restore(kIndexStateRows, index->Save(), Parallelism{2}).ok());
  EXPECT_TRUE(restored->built());
  EXPECT_EQ(AllBuckets(*restored), AllBuckets(*index));
  const auto fresh = MakeIndex();
  fresh->Build(rows_, {}, Refresh::kYes, Parallelism{1});
  EXPECT_NE(AllBuckets(*fresh), AllBuckets(*index)) << "tables made anew would be other ones";
  // Both go on alike: with the centre that was saved, and when it has moved.
  for (const Refresh refresh : {Refresh::kNo, Refresh::kIfMoved, Refresh::kYes}) {
    const std::vector<LocalRow> dirty = Change(2, refresh == Refresh::kIfMoved ? 5.0f : 0.3f);
    index->Build(rows_, dirty, refresh, Parallelism{1});
    restored->Build(rows_, dirty, refresh, Parallelism{3});
    EXPECT_EQ(AllBuckets(*restored), AllBuckets(*index));
  }
}

TEST_P(IndexStateTest, AnotherShapeIsRefused) {
  const auto index = MakeIndex();
  index->Build(rows_, {}, Refresh::kYes, Parallelism{1});
  const auto other = MakeIndex();
  EXPECT_FALSE(other->Restore(kIndexStateRows + 1, index->Save(), Parallelism{1}).ok());
  IndexState state = index->Save();
  state.mean.pop_back();
  EXPECT_FALSE(other->Restore(kIndexStateRows, state, Parallelism{1}).ok());
  state = index->Save();
  state.codes.push_back(0);
  EXPECT_FALSE(other->Restore(kIndexStateRows, state, Parallelism{1}).ok());
  EXPECT_FALSE(other->built());
}

TEST_P(IndexStateTest, AnIndexWithoutTablesCannotBeSaved) {
  const auto index = MakeIndex();
  EXPECT_DEATH(index->Save(), "saved without tables");
}

INSTANTIATE_TEST_SUITE_P(Families, IndexStateTest,
                         ::testing::Values(HashFamilyKind::kSimHash, HashFamilyKind::kDwta));

}  // namespace
}  // namespace dslide
