// Labels that are never predicted.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/spec/model_growth.h"
#include "tests/unit/services/shard/state/shard_core_fixture.h"

namespace dslide::shard {
namespace {

CreateModelCommand Retirement(const std::string& labels, ModelSpec spec = SampleSpec()) {
  spec.retired_labels = labels;
  CreateModelCommand command = SampleCreate(spec);
  command.grow = true;
  return command;
}

class ShardRetiredTest : public ShardCoreTest {
 protected:
  // All rows of this shard that TopK answers with, best first.
  std::vector<RowId> Ranked(const TopKCommand& query) {
    const Answer answer = Do(query);
    EXPECT_TRUE(answer.reply->status.ok()) << answer.reply->status;
    const ScoredRows& scored = std::get<TopKReply>(answer.reply->body).scored;
    std::vector<RowId> rows;
    for (const RowId row : scored.rows) {
      if (row != kNoRow) rows.push_back(row);
    }
    scored_ = scored.scored_rows;
    return rows;
  }
  TopKCommand Query() {
    return {.model = "m",
            .table = "head",
            .batch = 1,
            .dim = kSampleDim,
            .hidden = hidden_,
            .k = kSampleLabels,
            .hashed = false,
            .fingerprints = {},
            .candidates = {}};
  }
  void Retire(const std::string& labels) {
    const Answer answer = Do(Retirement(labels));
    EXPECT_TRUE(answer.reply->status.ok()) << answer.reply->status;
  }

  void Train(int64_t first, int64_t end) {
    for (int64_t step = first; step < end; ++step) {
      for (StepOp op : {StepOp(trainer_.EmbedForward()), StepOp(trainer_.HeadForward()),
                        StepOp(trainer_.HeadBackward()), StepOp(trainer_.EmbedBackward())}) {
        Must(std::move(op), step);
      }
    }
  }
  // Of the head, by label; "": absent.
  using Records = std::map<uint32_t, std::string>;
  static Records RecordsOf(ShardCore& core) {
    const StoredRows& stored = core.FindModel("m")->tables()[2].stored();
    Records records;
    for (int64_t i = 0; i < stored.rows().num_rows(); ++i) {
      const LocalRow row(static_cast<uint32_t>(i));
      const absl::Span<const char> record = stored.RecordSpan(row);
      records[stored.rows().ToGlobal(row).value()] = std::string(record.data(), record.size());
    }
    return records;
  }
  // The first label from this one on that has its row here.
  uint32_t FirstHeldFrom(uint32_t label) const {
    return RecordsOf(*core_).lower_bound(label)->first;
  }

  const std::vector<float> hidden_ = trainer_.Floats(kSampleDim);
  int64_t scored_ = 0;
};

TEST_F(ShardRetiredTest, ExactAnswersAreThoseOfTheOtherRows) {
  const std::vector<RowId> all = Ranked(Query());
  ASSERT_GT(all.size(), 10u);
  EXPECT_EQ(scored_, static_cast<int64_t>(all.size()));
  Retire(absl::StrCat(all[3].value(), ",", all[0].value()));
  std::vector<RowId> expected = all;
  expected.erase(expected.begin() + 3);
  expected.erase(expected.begin());
  EXPECT_EQ(Ranked(Query()), expected);
  EXPECT_EQ(scored_, static_cast<int64_t>(expected.size()));
  Retire("");
  EXPECT_EQ(Ranked(Query()), all);
}

TEST_F(ShardRetiredTest, NeitherHashingNorNamesBringThemBack) {
  TopKCommand hashed = Query();
  hashed.hashed = true;
  hashed.fingerprints = trainer_.HeadForward().fingerprints;
  hashed.fingerprints.resize(6);
  TopKCommand named = Query();
  named.candidates.rows = trainer_.HeldRows(trainer_.map(), kSampleLabels, 6);
  named.candidates.offsets = {0, 6};
  for (const TopKCommand& query : {hashed, named}) {
    const std::vector<RowId> before = Ranked(query);
    ASSERT_GT(before.size(), 1u);
    Retire(absl::StrCat(before[0].value()));
    EXPECT_EQ(Ranked(query), std::vector<RowId>(before.begin() + 1, before.end()));
    Retire("");
  }
}

TEST_F(ShardRetiredTest, TheirRowsAreFreedAndAllOthersStayToTheBit) {
  Train(1, 5);
  const Records before = RecordsOf(*core_);
  Retire("0-50");
  const Records after = RecordsOf(*core_);
  ASSERT_EQ(after.size(), before.size());
  int64_t freed = 0;
  for (const auto& [row, record] : after) {
    if (row > 50) {
      EXPECT_EQ(record, before.at(row)) << row;
    } else {
      EXPECT_EQ(record, "") << row;
      ++freed;
    }
  }
  ASSERT_GT(freed, 0);
  const ShardModel& model = *core_->FindModel("m");
  EXPECT_EQ(model.tables()[2].stored().present(), static_cast<int64_t>(after.size()) - freed);
  // Also as labels of steps.
  Train(5, 12);
  for (const auto& [row, record] : RecordsOf(*core_)) EXPECT_EQ(record.empty(), row <= 50) << row;
}

TEST_F(ShardRetiredTest, AStepThatHadBegunBringsNoneBack) {
  Train(1, 5);
  Must(trainer_.HeadForward(), 5);
  Retire("0-50");
  Must(trainer_.HeadBackward(), 5);
  for (const auto& [row, record] : RecordsOf(*core_)) EXPECT_EQ(record.empty(), row <= 50) << row;
}

TEST_F(ShardRetiredTest, RestoredOnesBeginAnew) {
  const Records first = RecordsOf(*core_);
  Train(1, 12);
  const Records trained = RecordsOf(*core_);
  ASSERT_NE(trained, first);
  Retire("0-50");
  Retire("31-50");
  for (const auto& [row, record] : RecordsOf(*core_)) {
    EXPECT_EQ(record, row <= 30 ? first.at(row) : row <= 50 ? "" : trained.at(row)) << row;
  }
  Train(12, 20);
  Retire("");
  EXPECT_EQ(RecordsOf(*core_).at(FirstHeldFrom(31)), first.at(FirstHeldFrom(31)));
}

TEST_F(ShardRetiredTest, RowsThatAreLoadedFindNone) {
  Retire("0-50");
  ReadRowsCommand read{.model = "m", .table = "head", .first = 0, .end = kSampleLabels};
  const Answer answer = Do(read);
  ASSERT_TRUE(answer.reply->status.ok()) << answer.reply->status;
  LoadRowsOp load{
      .table = "head", .block = std::get<ReadRowsReply>(answer.reply->body).block, .finish = true};
  ASSERT_FALSE(load.block.rows.empty());
  EXPECT_GT(load.block.rows.front().value(), 50u);
  load.block.rows.front() = RowId(FirstHeldFrom(0));
  Must(load, 1);
  EXPECT_EQ(RecordsOf(*core_).at(FirstHeldFrom(0)), "");
}

TEST_F(ShardRetiredTest, TrainersThatKnowNothingOfThemJoinAndChangeNothing) {
  Retire("1,4-6");
  const Answer joined = Do(SampleCreate());
  EXPECT_TRUE(joined.reply->status.ok()) << joined.reply->status;
  EXPECT_EQ(core_->FindModel("m")->spec().retired_labels, "1,4-6");
}

TEST_F(ShardRetiredTest, GrowthKeepsThem) {
  Retire("1,4-6");
  const ModelSpec grown = *GrowTable(core_->FindModel("m")->spec(), "head", kSampleLabels + 50);
  ASSERT_TRUE(Do(Retirement("1,4-6", grown)).reply->status.ok());
  const std::vector<RowId> rows = Ranked(Query());
  for (const uint32_t label : {1u, 4u, 5u, 6u}) {
    EXPECT_THAT(rows, testing::Not(testing::Contains(RowId(label))));
  }
  const std::string last = absl::StrCat(kSampleLabels + 49);
  ASSERT_TRUE(Do(Retirement(last, grown)).reply->status.ok());
  EXPECT_EQ(core_->FindModel("m")->spec().retired_labels, last);
}

TEST_F(ShardRetiredTest, ADryRunChangesNothing) {
  CreateModelCommand command = Retirement("3");
  command.dry_run = true;
  EXPECT_TRUE(Do(command).reply->status.ok());
  EXPECT_EQ(core_->FindModel("m")->spec(), SampleSpec());
}

}  // namespace
}  // namespace dslide::shard
