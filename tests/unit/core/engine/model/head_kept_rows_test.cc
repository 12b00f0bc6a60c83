// What exact scans of a head keep between two updates.

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/counter_rng.h"
#include "core/engine/model/head_table.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

constexpr int64_t kScanHeadRows = 700;
constexpr int64_t kScanColumns = 20;
constexpr int64_t kMuchRoom = int64_t{1} << 30;

class HeadKeptRowsTest : public ::testing::Test {
 protected:
  HeadKeptRowsTest() {
    spec_.name = "out";
    spec_.role = TableRole::kHead;
    spec_.rows = kScanHeadRows;
    spec_.dim = kScanColumns;
    spec_.num_slots = 8;
    spec_.head.hash.codes_per_table = 3;
    spec_.head.hash.num_tables = 4;
    spec_.head.max_active = 20;
    head_ = Make();
    CounterRng rng(7);
    for (int64_t i = 0; i < kScanColumns; ++i) hidden_.push_back(std::abs(rng.NextGaussian()));
  }

  std::unique_ptr<HeadTable> Make() const {
    const auto map = SlotMap::Deal(spec_.num_slots, {1.0});
    return *HeadTable::Create(spec_, 1, ShardRows(*map, ShardId(0), spec_.rows), Parallelism{1});
  }
  ScoredRows Scan(int64_t room) const {
    return head_->TopK(hidden_, 1, 10, {}, Parallelism{2}, /*budget=*/0, room);
  }
  // As one that keeps nothing answers.
  void ExpectTrue(const ScoredRows& answer) const {
    const ScoredRows plain = ExactTopK(RowReader::Averaged(head_->store(), head_->applied()),
                                       hidden_, 1, 10, Parallelism{1}, head_->left_out());
    EXPECT_EQ(answer.rows, plain.rows);
    EXPECT_EQ(answer.logits, plain.logits);
    EXPECT_EQ(answer.scored_rows, plain.scored_rows);
  }
  // The second scan keeps the rows, and both are right.
  void ExpectKeptByTheSecond() const {
    ExpectTrue(Scan(kMuchRoom));
    EXPECT_EQ(head_->kept_bytes(), 0);
    ExpectTrue(Scan(kMuchRoom));
    EXPECT_EQ(head_->kept_bytes(), ScannedRows::BytesOf(kScanHeadRows, kScanColumns));
    ExpectTrue(Scan(kMuchRoom));
  }
  // The row that answers best becomes the worst.
  void Scatter() {
    const LocalRow best = head_->store().rows().ToLocal(Scan(0).rows[0]);
    const std::vector<float> weights(kScanColumns, -9.0f);
    const dslide::Step next(head_->applied().value() + 1);
    ASSERT_TRUE(head_->store().ChangeWeights(best, RowStore::Change::kAssign, weights.data(), 0.0f,
                                             head_->store().BeginUpdate(next, 1e4f)));
    head_->MarkDirty({best});
  }

  TableSpec spec_;
  std::unique_ptr<HeadTable> head_;
  std::vector<float> hidden_;
};

TEST_F(HeadKeptRowsTest, ComeWithTheSecondScanAndGoWithAnUpdate) {
  ExpectKeptByTheSecond();
  Scatter();
  head_->AdvanceStep(Parallelism{1});
  EXPECT_EQ(head_->kept_bytes(), 0);
  ExpectKeptByTheSecond();
  head_->AdvanceStep(Parallelism{1});
  EXPECT_EQ(head_->kept_bytes(), 0);
}

TEST_F(HeadKeptRowsTest, GoWithAChangeThatCountsNoUpdate) {
  ExpectKeptByTheSecond();
  Scatter();
  ExpectKeptByTheSecond();
}

TEST_F(HeadKeptRowsTest, GoWithRowsThatAreLeftOutAndWithLoadedOnes) {
  ExpectKeptByTheSecond();
  std::vector<uint8_t> marks(kScanHeadRows, 0);
  marks[head_->store().rows().ToLocal(Scan(0).rows[0]).value()] = 1;
  head_->LeaveOut(marks, Parallelism{1});
  ExpectKeptByTheSecond();
  const auto trained = Make();
  trained->AdvanceStep(Parallelism{1});
  ASSERT_TRUE(
      head_->store().SetRecord(LocalRow(3), trained->store().RecordSpan(LocalRow(4)), 1e4f).ok());
  head_->ResetAfterLoad(head_->applied(), Parallelism{1});
  ExpectKeptByTheSecond();
}

TEST_F(HeadKeptRowsTest, TakeNoMoreThanTheRoom) {
  const int64_t bytes = ScannedRows::BytesOf(kScanHeadRows, kScanColumns);
  for (int scan = 0; scan < 3; ++scan) ExpectTrue(Scan(bytes - 1));
  EXPECT_EQ(head_->kept_bytes(), 0);
  ExpectTrue(Scan(bytes));
  EXPECT_EQ(head_->kept_bytes(), bytes);
  head_->ForgetKept();
  EXPECT_EQ(head_->kept_bytes(), 0);
}

TEST_F(HeadKeptRowsTest, AreTheAveragedOnes) {
  spec_.optimizer.average_decay = 0.5;
  head_ = Make();
  Scatter();
  head_->AdvanceStep(Parallelism{1});
  ExpectKeptByTheSecond();
}

}  // namespace
}  // namespace dslide
