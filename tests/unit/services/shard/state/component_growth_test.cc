// Models with tables of records that get more labels, and room for points, on one shard.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/memory/point_record.h"
#include "core/protocol/reason_words.h"
#include "core/spec/model_growth.h"
#include "core/spec/tree_shape.h"
#include "tests/unit/services/shard/state/component_samples.h"
#include "tests/unit/services/shard/state/shard_core_fixture.h"

namespace dslide::shard {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMoreLabels = kComponentLabels + 7;
constexpr uint32_t kMorePoints = kComponentPoints + 60;

ModelSpec MoreLabels() { return *GrowLabels(ComponentSpec(), kMoreLabels); }

// A point of a label that the model did not have, and of one that it had.
AppendPointsOp NewPoint(uint32_t number) {
  AppendPointsOp op = NoPoints();
  AddSamplePoint(number, op);
  op.labels = {RowId(3), RowId(kComponentLabels + number % 7)};
  return op;
}

// A shard of a cluster of two, with the sample model trained on it.
class ComponentGrowthTest : public ::testing::TestWithParam<int> {
 protected:
  struct Shard {
    SampleTrainer trainer;
    std::unique_ptr<ShardCore> core;
    int64_t step = 1;

    Answer Do(StepOp op) {
      ++step;
      return core->Apply(trainer.Step(std::move(op), step, step));
    }
    void Must(StepOp op) {
      const Answer answer = Do(std::move(op));
      EXPECT_TRUE(answer.reply->status.ok()) << answer.reply->status;
    }
    Answer Grow(const ModelSpec& spec, bool dry_run = false) {
      CreateModelCommand command = SampleCreate(spec);
      command.grow = true;
      command.dry_run = dry_run;
      return core->Apply(command);
    }
    void Append(uint32_t first, uint32_t last) {
      for (uint32_t at = first; at < last; at += 50) {
        Must(ComponentPoints(at, std::min(at + 50, last)));
      }
    }
    void Solve() {
      Must(SolveRowsOp{.table = "linear", .tree = -1, .first = 0, .count = kComponentLabels});
      for (int64_t tree = 0; tree < 2; ++tree) {
        Must(ComponentTree(tree));
        Must(SolveRowsOp{.table = "linear", .tree = tree, .first = 0, .count = 1});
        for (const int64_t leaf : {0, 2}) {
          Must(SolveRowsOp{.table = "linear", .tree = tree, .level = 1, .first = leaf, .count = 2});
        }
      }
    }
    std::map<uint32_t, std::string> Records(size_t table) const {
      std::map<uint32_t, std::string> records;
      const StoredRows& rows = core->models().at("m")->tables()[table].stored();
      for (uint32_t i = 0; i < rows.rows().num_rows(); ++i) {
        const absl::Span<const char> record = rows.RecordSpan(LocalRow(i));
        if (record.empty()) continue;
        records.emplace(rows.rows().ToGlobal(LocalRow(i)).value(),
                        std::string(record.begin(), record.end()));
      }
      return records;
    }
  };

  static std::unique_ptr<Shard> Start(const ModelSpec& spec = ComponentSpec(),
                                      int threads = GetParam()) {
    auto shard = std::make_unique<Shard>();
    shard->core = std::make_unique<ShardCore>(SampleOptions(threads));
    for (const Command& command :
         {Command(SetOwnershipCommand{.shard = ShardId(0), .generation = 7}),
          Command(SampleCreate(spec)), Command(shard->trainer.Hello())}) {
      EXPECT_TRUE(shard->core->Apply(command).reply->status.ok());
    }
    return shard;
  }
};

TEST_P(ComponentGrowthTest, NothingThatIsThereMoves) {
  const auto shard = Start();
  shard->Append(0, kComponentPoints);
  shard->Solve();
  std::vector<std::map<uint32_t, std::string>> before;
  for (size_t table = 0; table < 4; ++table) before.push_back(shard->Records(table));
  ASSERT_GT(before[2].size(), 20u);
  ASSERT_TRUE(shard->Grow(MoreLabels()).reply->status.ok());
  for (size_t table = 0; table < 4; ++table) EXPECT_EQ(shard->Records(table), before[table]);
  EXPECT_EQ(shard->core->models().at("m")->spec(), MoreLabels());
  // Again, and for who knows the smaller model.
  const uint64_t digest = shard->core->Digest();
  ASSERT_TRUE(shard->Grow(MoreLabels()).reply->status.ok());
  ASSERT_TRUE(shard->core->Apply(SampleCreate(ComponentSpec())).reply->status.ok());
  EXPECT_EQ(shard->core->Digest(), digest);
}

TEST_P(ComponentGrowthTest, NewLabelsHavePointsCentroidsAndTrees) {
  const auto shard = Start();
  shard->Append(0, 100);
  shard->Solve();
  EXPECT_EQ(Reason(shard->Do(NewPoint(100))), reason::kBadRowId);
  ASSERT_TRUE(shard->Grow(MoreLabels()).reply->status.ok());
  shard->Must(NewPoint(100));
  const Answer found = shard->Do(
      FindNeighboursOp{.table = "points", .inputs = NewPoint(100).inputs, .k = 1, .left_out = {}});
  // The other shard may own it.
  const auto& reply = std::get<FindNeighboursReply>(found.reply->body);
  ASSERT_EQ(reply.points.size(), 1u);
  if (reply.points[0] == RowId(100)) {
    EXPECT_EQ(reply.labels.back(), RowId(kComponentLabels + 100 % 7));
  }

  // Rows of labels in trees that have no leaf for them yet are not solved; centroids are.
  const TreeShape shape = ShapeOfTrees(MoreLabels().tables[0].memory, MoreLabels().tables[1].trees);
  shard->Must(SolveRowsOp{.table = "linear", .tree = -1, .first = 0, .count = kMoreLabels});
  shard->Solve();
  PutRecordOp tree = ComponentTree(0);
  std::string leaves(4 * 7, '\0');
  tree.record += leaves;
  shard->Must(tree);
  shard->Must(SolveRowsOp{.table = "linear", .tree = 0, .level = 1, .first = 0, .count = 4});
  const RowId label(kComponentLabels + 100 % 7);
  const auto rows = shard->Records(2);
  const SlotMap& map = shard->core->models().at("m")->slot_maps()[0];
  for (const RowId row : {shape.CentroidRow(label), shape.LabelRow(0, label)}) {
    EXPECT_EQ(rows.contains(row.value()), map.OwnerOf(row) == ShardId(0)) << row.value();
  }
  EXPECT_FALSE(rows.contains(shape.LabelRow(1, label).value()));
}

TEST_P(ComponentGrowthTest, TreesOfWhoKnowsFewerLabelsAreTaken) {
  const auto shard = Start(MoreLabels());
  shard->Append(0, 50);
  PutRecordOp whole = ComponentTree(0);
  whole.record += std::string(4 * 7, '\0');
  for (const size_t cut : {size_t{1}, size_t{4 * 8}}) {
    PutRecordOp bad = whole;
    bad.record.resize(whole.record.size() - cut);
    EXPECT_EQ(Reason(shard->Do(bad)), reason::kBadSize);
  }
  shard->Must(whole);
  shard->Must(ComponentTree(0));
  shard->Must(ComponentTree(1));
  shard->Must(SolveRowsOp{.table = "linear", .tree = 0, .level = 1, .first = 0, .count = 4});
}

TEST_P(ComponentGrowthTest, AMemoryWithMoreRoomIsWhatItWouldHaveBeen) {
  const auto shard = Start();
  shard->Append(0, kComponentPoints + 30);  // the first 30 are gone
  shard->Solve();
  const ModelSpec more = *GrowTable(ComponentSpec(), "points", kMorePoints);
  ASSERT_TRUE(shard->Grow(more).reply->status.ok());
  shard->Append(kComponentPoints + 30, kMorePoints);
  shard->Solve();
  ModelSpec from_the_start = ComponentSpec();
  from_the_start.tables[0].rows = kMorePoints;
  const auto fresh = Start(from_the_start);
  fresh->Append(30, kMorePoints);
  fresh->Solve();
  for (size_t table = 0; table < 4; ++table) {
    EXPECT_EQ(shard->Records(table), fresh->Records(table));
  }
  EXPECT_EQ(shard->Records(0).size(), kMorePoints - 30u);
}

TEST_P(ComponentGrowthTest, ReplayGivesTheSameBitsForAnyNumberOfThreads) {
  const auto run = [](Shard& shard) {
    shard.Append(0, 100);
    shard.Solve();
    EXPECT_TRUE(shard.Grow(MoreLabels()).reply->status.ok());
    shard.Must(NewPoint(100));
    EXPECT_TRUE(shard.Grow(*GrowTable(MoreLabels(), "points", kMorePoints)).reply->status.ok());
    shard.Append(101, kMorePoints);
    shard.Solve();
  };
  const auto shard = Start();
  run(*shard);
  const auto other = Start(ComponentSpec(), /*threads=*/3);
  run(*other);
  EXPECT_EQ(shard->core->Digest(), other->core->Digest());
}

TEST_P(ComponentGrowthTest, ARefusalLeavesEverything) {
  const auto shard = Start();
  shard->Append(0, kComponentPoints);
  const uint64_t digest = shard->core->Digest();
  CoreLimits limits = shard->core->limits();
  limits.memory_bytes = shard->core->memory_bytes() + 1000;
  shard->core->SetLimits(limits);
  for (const bool dry_run : {true, false}) {
    const Answer refused = shard->Grow(MoreLabels(), dry_run);
    EXPECT_EQ(Reason(refused), reason::kOutOfMemory);
    EXPECT_THAT(std::string(refused.reply->status.message()), HasSubstr("1000 are left"));
  }
  EXPECT_EQ(shard->core->Digest(), digest);
  EXPECT_EQ(shard->core->models().at("m")->spec(), ComponentSpec());
}

INSTANTIATE_TEST_SUITE_P(Threads, ComponentGrowthTest, ::testing::Values(1, 2));

}  // namespace
}  // namespace dslide::shard
