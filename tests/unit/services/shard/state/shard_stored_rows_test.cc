// Rows as they are stored: read from one shard, loaded into another.

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "core/protocol/reason_words.h"
#include "tests/unit/services/shard/state/record_samples.h"
#include "tests/unit/services/shard/state/shard_trainer.h"

namespace dslide::shard {
namespace {

class ShardStoredRowsTest : public ::testing::Test {
 protected:
  ShardStoredRowsTest() : trained_(Fresh()) {
    for (int64_t step = 1; step <= 20; ++step) {
      Must(*trained_, trainer_.Step(trainer_.EmbedForward(), step, step));
      Must(*trained_, trainer_.Step(trainer_.HeadForward(), step, step));
      Must(*trained_, trainer_.Step(trainer_.HeadBackward(), step, step));
      Must(*trained_, trainer_.Step(trainer_.EmbedBackward(), step, step));
      Must(*trained_, trainer_.Step(trainer_.DenseScatter(), step, step));
    }
    AppendPointsOp points = {.table = "memory",
                             .inputs = {.offsets = {0}, .features = {}, .values = {}},
                             .label_offsets = {0},
                             .labels = {}};
    for (uint32_t number = 0; number < 300; ++number) {
      points.numbers.push_back(number);
      points.inputs.features.push_back(RowId(number % 40));
      points.inputs.values.push_back(1.0f + static_cast<float>(number % 50));
      points.inputs.offsets.push_back(number + 1);
      points.labels.push_back(RowId(number % 9));
      points.label_offsets.push_back(number + 1);
    }
    Must(*trained_, trainer_.Step(points, 21, 21));
  }

  std::unique_ptr<ShardCore> Fresh() {
    auto core = std::make_unique<ShardCore>(SampleOptions());
    Must(*core, SetOwnershipCommand{.shard = ShardId(0), .generation = 7});
    Must(*core, SampleCreate(SampleRecordSpec()));
    Must(*core, trainer_.Hello());
    return core;
  }
  static Answer Must(ShardCore& core, Command command) {
    Answer answer = core.Apply(std::move(command));
    EXPECT_TRUE(answer.reply->status.ok()) << answer.reply->status;
    return answer;
  }
  // All rows of a table of the trained shard, so many rows a question.
  std::vector<ReadRowsReply> Read(const TableSpec& table, int64_t at_once) {
    std::vector<ReadRowsReply> replies;
    for (int64_t first = 0; first < table.rows;) {
      const Answer answer =
          Must(*trained_, ReadRowsCommand{.model = "m",
                                          .table = table.name,
                                          .first = first,
                                          .end = std::min(first + at_once, table.rows)});
      replies.push_back(std::get<ReadRowsReply>(answer.reply->body));
      first = replies.back().next;
    }
    return replies;
  }
  LoadRowsOp HeadRows() {
    const ReadRowsReply read = Read(SampleRecordSpec().tables[2], kSampleLabels).front();
    return {.table = "head", .block = read.block, .applied_steps = read.applied_steps};
  }
  Answer Load(ShardCore& core, LoadRowsOp op) {
    SampleTrainer other(9);
    Must(core, other.Hello());
    return core.Apply(other.Step(std::move(op), 1, 1));
  }

  SampleTrainer trainer_;
  std::unique_ptr<ShardCore> trained_;
};

TEST_F(ShardStoredRowsTest, AnotherShardHasTheSameRowsAndAnswers) {
  const auto copy = Fresh();
  SampleTrainer other(8);
  Must(*copy, other.Hello());
  int64_t step = 1;
  for (const TableSpec& table : SampleRecordSpec().tables) {
    for (const ReadRowsReply& read : Read(table, 37)) {
      Must(*copy, other.Step(LoadRowsOp{.table = table.name,
                                        .block = read.block,
                                        .applied_steps = read.applied_steps},
                             step, step));
      ++step;
    }
    Must(*copy,
         other.Step(LoadRowsOp{.table = table.name, .block = {}, .finish = true}, step, step));
    ++step;
  }
  EXPECT_EQ(copy->Digest(), trained_->Digest()) << "rows and counts of updates";
  FindNeighboursOp neighbours = {
      .table = "memory",
      .inputs = {.offsets = {0, 2}, .features = {RowId(4), RowId(18)}, .values = {1, 2}},
      .k = 50,
      .left_out = {}};
  const auto mine =
      std::get<FindNeighboursReply>(Must(*trained_, trainer_.Step(neighbours, 30, 30)).reply->body);
  const auto theirs =
      std::get<FindNeighboursReply>(Must(*copy, other.Step(neighbours, step, step)).reply->body);
  EXPECT_FALSE(mine.points.empty());
  EXPECT_EQ(mine.points, theirs.points);
  EXPECT_EQ(mine.similarities, theirs.similarities);
}

TEST_F(ShardStoredRowsTest, ReadersGetWhatIsThereAndNoMore) {
  const auto ask = [&](const char* table, int64_t first, int64_t end, bool sizes_only) {
    return trained_->Apply(ReadRowsCommand{
        .model = "m", .table = table, .first = first, .end = end, .sizes_only = sizes_only});
  };
  const auto sizes = std::get<ReadRowsReply>(ask("memory", 0, 400, true).reply->body);
  EXPECT_EQ(sizes.block.rows.size(), 300u) << "row 300 and above are absent";
  EXPECT_EQ(sizes.block.records, "");
  EXPECT_EQ(sizes.next, 400);
  EXPECT_EQ(Reason(ask("head", 0, kSampleLabels + 1, false)), reason::kOutOfRange);
  EXPECT_EQ(Reason(ask("head", 2, 1, false)), reason::kOutOfRange);
  EXPECT_EQ(Reason(ask("nothing", 0, 1, false)), reason::kUnknownTable);
}

TEST_F(ShardStoredRowsTest, RowsThatCannotBeAreRefusedAndChangeNothing) {
  const auto copy = Fresh();
  const uint64_t digest = copy->Digest();
  LoadRowsOp early = HeadRows();
  early.applied_steps = 3;
  EXPECT_EQ(Reason(Load(*copy, early)), reason::kBadSize) << "a step of its future";
  LoadRowsOp other_table = HeadRows();
  other_table.table = "hidden";
  EXPECT_NE(Reason(Load(*Fresh(), other_table)), "");
  LoadRowsOp garbled = HeadRows();
  garbled.block.records.back() = 1;
  EXPECT_EQ(Reason(Load(*Fresh(), garbled)), reason::kBadSize) << "padding";
  LoadRowsOp point = {.table = "memory",
                      .block = {.rows = {RowId(4)}, .sizes = {3}, .records = "abc"}};
  EXPECT_EQ(Reason(Load(*Fresh(), point)), reason::kBadSize);
  LoadRowsOp elsewhere = {.table = "memory", .block = {}};
  elsewhere.block.records = EncodePoint({RowId(1)}, {1.0f}, {RowId(0)}, {.number = 5});
  elsewhere.block.rows = {RowId(4)};
  elsewhere.block.sizes = {static_cast<uint32_t>(elsewhere.block.records.size())};
  EXPECT_EQ(Reason(Load(*Fresh(), elsewhere)), reason::kBadSize) << "point 5 is of row 5";
  EXPECT_EQ(copy->Digest(), digest);
}

// Training goes on: the next update is above the last step of every row.
TEST_F(ShardStoredRowsTest, TrainingGoesOnFromLoadedRows) {
  const auto copy = Fresh();
  ASSERT_TRUE(Load(*copy, HeadRows()).reply->status.ok());
  SampleTrainer next(7);
  Must(*copy, next.Hello());
  Must(*copy, next.Step(next.HeadForward(), 1, 1));
  Must(*copy, next.Step(next.HeadBackward(), 1, 1));
  EXPECT_EQ(copy->Counters().rejected_rows, 0);
}

}  // namespace
}  // namespace dslide::shard
