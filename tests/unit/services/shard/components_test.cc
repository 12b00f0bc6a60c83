// Memory, trees and linear rows on shards: the same bits for any number of shards and threads, and
// nothing done twice.

#include "services/shard/components.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "core/base/counter_rng.h"
#include "core/base/reason.h"
#include "core/fusion/fusion_inputs.h"
#include "core/fusion/fusion_record.h"
#include "core/trees/label_centroid.h"
#include "core/wire/reason_words.h"

namespace dslide::shard {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kPoints = 200;
constexpr int64_t kLabels = 40;
constexpr int64_t kSlots = 16;

ModelSpec ComponentSpec() {
  ModelSpec spec;
  spec.name = "m";
  for (const auto& [name, role] :
       {std::pair("points", TableRole::kMemory), std::pair("trees", TableRole::kLabelTrees),
        std::pair("linear", TableRole::kLinear), std::pair("fusion", TableRole::kFusion)}) {
    TableSpec& table = spec.tables.emplace_back();
    table.name = name;
    table.role = role;
    table.num_slots = kSlots;
  }
  spec.tables[0].rows = kPoints;
  spec.tables[0].memory.labels = kLabels;
  spec.tables[1].trees.trees = 2;
  spec.tables[1].trees.depth = 2;
  const TreeShape shape = ShapeOfTrees(spec.tables[0].memory, spec.tables[1].trees);
  spec.tables[1].rows = shape.num_piece_rows();
  spec.tables[2].rows = shape.num_rows();
  spec.tables[3].rows = 1;
  EXPECT_TRUE(spec.Validate(/*sizes_known=*/true).ok());
  return spec;
}

// One shard of a cluster.
class ComponentShard {
 public:
  ComponentShard(const ModelSpec& spec, int shards, int number, int threads)
      : spec_(spec), map_(*SlotMap::Deal(kSlots, std::vector<double>(shards, 1.0))) {
    for (const TableSpec& table : spec_.tables) {
      stores_.push_back(
          std::make_unique<RecordStore>(table, RecordStore::RowsOf(table, map_, ShardId(number))));
    }
    components_ = std::make_unique<Components>(ComponentTables{.spec = &spec_,
                                                               .memory = stores_[0].get(),
                                                               .trees = stores_[1].get(),
                                                               .linear = stores_[2].get(),
                                                               .fusion = stores_[3].get(),
                                                               .memory_slots = &map_,
                                                               .shard = ShardId(number)},
                                               Parallelism{threads});
  }

  Components& operator*() { return *components_; }
  Components* operator->() { return components_.get(); }
  RecordStore& store(size_t table) { return *stores_[table]; }
  // Every row that is there, by its global number.
  void Collect(size_t table, std::map<uint32_t, std::string>& rows) const {
    const RecordStore& store = *stores_[table];
    for (uint32_t i = 0; i < store.num_rows(); ++i) {
      const absl::Span<const char> record = store.Record(LocalRow(i));
      if (record.empty()) continue;
      const uint32_t row = store.rows().ToGlobal(LocalRow(i)).value();
      EXPECT_TRUE(rows.emplace(row, std::string(record.begin(), record.end())).second) << row;
    }
  }

 private:
  const ModelSpec spec_;
  const SlotMap map_;
  std::vector<std::unique_ptr<RecordStore>> stores_;
  std::unique_ptr<Components> components_;
};

AppendPointsOp Points(uint32_t first, uint32_t last) {
  AppendPointsOp op{
      .table = "points", .points = {}, .inputs = {}, .label_offsets = {0}, .labels = {}};
  op.inputs.offsets = {0};
  for (uint32_t id = first; id < last; ++id) {
    CounterRng rng(DeriveKey(5, id));
    op.points.push_back(RowId(id));
    const auto label = static_cast<uint32_t>(rng.NextBelow(kLabels - 1));
    op.labels.push_back(RowId(label));
    op.labels.push_back(RowId(label + 1));
    op.label_offsets.push_back(static_cast<uint32_t>(op.labels.size()));
    for (uint32_t feature = 0; feature < 90; ++feature) {
      if (feature / 2 != label && rng.NextBelow(20) != 0) continue;
      op.inputs.features.push_back(RowId(feature));
      op.inputs.values.push_back(rng.NextUniform());
    }
    op.inputs.offsets.push_back(static_cast<uint32_t>(op.inputs.features.size()));
  }
  return op;
}

PutRecordOp Tree(int64_t tree) {
  std::string record(4 * kLabels, '\0');
  for (uint32_t label = 0; label < kLabels; ++label) {
    const uint32_t leaf = (label / 10 + static_cast<uint32_t>(tree)) % 4;
    std::memcpy(record.data() + 4 * label, &leaf, 4);
  }
  return {.table = "trees", .row = RowId(static_cast<uint32_t>(tree)), .record = record};
}

// Everything that training does.
void Train(ComponentShard& shard) {
  for (uint32_t first = 0; first < kPoints; first += 50) {
    ASSERT_TRUE(shard->AppendPoints(Points(first, first + 50)).ok());
  }
  ASSERT_TRUE(shard->SolveRows({.table = "linear", .tree = -1, .first = 0, .count = kLabels}).ok());
  for (int64_t tree = 0; tree < 2; ++tree) {
    ASSERT_TRUE(shard->PutRecord(Tree(tree)).ok());
    ASSERT_TRUE(shard->SolveRows({.table = "linear", .tree = tree, .first = 0, .count = 1}).ok());
    for (const int64_t leaf : {0, 2}) {
      const auto solved = shard->SolveRows(
          {.table = "linear", .tree = tree, .level = 1, .first = leaf, .count = 2});
      ASSERT_TRUE(solved.ok()) << solved.status();
      EXPECT_GT(solved->rows, 0);
    }
  }
}

std::string ReasonFor(const absl::Status& status) { return std::string(ReasonOf(status)); }

TEST(ComponentsTest, RowsAndAnswersDoNotDependOnShardsAndThreads) {
  const ModelSpec spec = ComponentSpec();
  std::map<uint32_t, std::string> alone;
  std::vector<Neighbour> near_alone;
  std::vector<float> scores_alone;
  FindNeighboursOp find{
      .table = "points", .inputs = Points(20, 21).inputs, .k = 12, .left_out = {20}};
  for (const int shards : {1, 3, 5}) {
    std::map<uint32_t, std::string> rows;
    std::vector<Neighbour> near;
    std::map<uint32_t, float> scores;
    for (int number = 0; number < shards; ++number) {
      ComponentShard shard(spec, shards, number, 1 + number % 3);
      Train(shard);
      shard.Collect(2, rows);
      const auto found = shard->FindNeighbours(find, 1 << 20);
      ASSERT_TRUE(found.ok()) << found.status();
      for (size_t i = 0; i < found->points.size(); ++i) {
        near.push_back({found->points[i].value(), found->similarities[i]});
        EXPECT_EQ(found->label_offsets[i + 1] - found->label_offsets[i], 2u);
      }
      ScoreRowsOp score{.table = "linear", .inputs = find.inputs, .row_offsets = {0}, .rows = {}};
      for (uint32_t row = 0; row < spec.tables[2].rows; ++row) {
        if (shard.store(2).rows().Holds(RowId(row))) score.rows.push_back(RowId(row));
      }
      score.row_offsets.push_back(static_cast<uint32_t>(score.rows.size()));
      const auto scored = shard->ScoreRows(score);
      ASSERT_TRUE(scored.ok()) << scored.status();
      for (size_t i = 0; i < score.rows.size(); ++i) {
        scores[score.rows[i].value()] = scored->scores[i];
      }
    }
    std::sort(near.begin(), near.end());
    near.resize(12);
    std::vector<float> by_row;
    for (const auto& [row, value] : scores) by_row.push_back(value);
    if (shards == 1) {
      alone = rows;
      near_alone = near;
      scores_alone = by_row;
      EXPECT_GT(rows.size(), 3u * kLabels);
    }
    EXPECT_EQ(rows, alone);
    EXPECT_EQ(near, near_alone);
    EXPECT_EQ(by_row, scores_alone);
  }
}

TEST(ComponentsTest, RepeatedTrainingChangesNothing) {
  ComponentShard once(ComponentSpec(), 2, 1, 2);
  ComponentShard twice(ComponentSpec(), 2, 1, 2);
  Train(once);
  Train(twice);
  Train(twice);
  for (size_t table = 0; table < 3; ++table) {
    std::map<uint32_t, std::string> expected;
    std::map<uint32_t, std::string> found;
    once.Collect(table, expected);
    twice.Collect(table, found);
    EXPECT_EQ(expected, found);
  }
}

TEST(ComponentsTest, WhatIsDerivedComesBackFromTheRecords) {
  ComponentShard shard(ComponentSpec(), 2, 0, 2);
  Train(shard);
  const FindNeighboursOp find{
      .table = "points", .inputs = Points(30, 34).inputs, .k = 9, .left_out = {}};
  const auto before = shard->FindNeighbours(find, 1 << 20);
  ASSERT_TRUE(shard->Rebuild().ok());
  const auto after = shard->FindNeighbours(find, 1 << 20);
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_EQ(before->points, after->points);
  EXPECT_EQ(before->similarities, after->similarities);
  EXPECT_EQ(before->labels, after->labels);
}

TEST(ComponentsTest, DamagedRecordsAreNamed) {
  ComponentShard shard(ComponentSpec(), 2, 0, 1);
  Train(shard);
  const std::string bad = "garbage of some length";
  shard.store(0).Put(LocalRow(7), bad);
  absl::Status status = shard->Rebuild();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("table \"points\", row 7"));
  shard.store(0).Erase(LocalRow(7));
  const RowId row = shard.store(2).rows().ToGlobal(LocalRow(3));
  shard.store(2).Put(LocalRow(3), bad);
  status = shard->Rebuild();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("table \"linear\", row ", row.value())));
}

TEST(ComponentsTest, WrongRequestsAreRefusedAndChangeNothing) {
  ComponentShard shard(ComponentSpec(), 2, 0, 1);
  Train(shard);
  std::map<uint32_t, std::string> before;
  shard.Collect(0, before);
  AppendPointsOp other = Points(3, 5);
  other.inputs.values[0] += 1;
  EXPECT_EQ(ReasonFor(shard->AppendPoints(other).status()), reason::kBadRowId);
  AppendPointsOp beyond = Points(kPoints - 1, kPoints + 1);
  EXPECT_EQ(ReasonFor(shard->AppendPoints(beyond).status()), reason::kBadRowId);
  beyond.table = "linear";
  EXPECT_EQ(ReasonFor(shard->AppendPoints(beyond).status()), reason::kWrongRole);
  beyond.table = "nothing";
  EXPECT_EQ(ReasonFor(shard->AppendPoints(beyond).status()), reason::kUnknownTable);
  std::map<uint32_t, std::string> after;
  shard.Collect(0, after);
  EXPECT_EQ(before, after);

  PutRecordOp tree = Tree(0);
  tree.record.pop_back();
  EXPECT_EQ(ReasonFor(shard->PutRecord(tree).status()), reason::kBadSize);
  tree = Tree(0);
  tree.record[1] = 1;
  EXPECT_EQ(ReasonFor(shard->PutRecord(tree).status()), reason::kOutOfRange);
  tree.row = RowId(3);
  EXPECT_EQ(ReasonFor(shard->PutRecord(tree).status()), reason::kBadRowId);
  EXPECT_EQ(ReasonFor(shard->PutRecord({"fusion", RowId(0), "x"}).status()), reason::kBadSize);
  EXPECT_EQ(ReasonFor(shard->PutRecord({"points", RowId(0), "x"}).status()), reason::kWrongRole);
  EXPECT_EQ(ReasonFor(shard->GetRecord({"fusion", RowId(1)}).status()), reason::kBadRowId);

  for (const SolveRowsOp& wrong : std::vector<SolveRowsOp>{
           {.table = "linear", .tree = 2, .first = 0, .count = 1},
           {.table = "linear", .tree = -2, .first = 0, .count = 1},
           {.table = "linear", .tree = 0, .level = 2, .first = 0, .count = 1},
           {.table = "linear", .tree = 0, .level = 1, .first = 3, .count = 2},
           {.table = "linear", .tree = 0, .level = 1, .first = 0, .count = 0},
           {.table = "linear", .tree = -1, .first = 0, .count = kLabels + 1}}) {
    EXPECT_EQ(ReasonFor(shard->SolveRows(wrong).status()), reason::kOutOfRange);
  }
  ScoreRowsOp foreign{
      .table = "linear", .inputs = Points(0, 1).inputs, .row_offsets = {0, 1}, .rows = {RowId(0)}};
  if (shard.store(2).rows().Holds(RowId(0))) foreign.rows[0] = RowId(1);
  EXPECT_EQ(ReasonFor(shard->ScoreRows(foreign).status()), reason::kForeignRow);
  foreign.rows[0] = RowId(1u << 30);
  EXPECT_EQ(ReasonFor(shard->ScoreRows(foreign).status()), reason::kForeignRow);
  const FindNeighboursOp find{
      .table = "points", .inputs = Points(0, 50).inputs, .k = 100, .left_out = {}};
  EXPECT_EQ(ReasonFor(shard->FindNeighbours(find, 1000).status()), reason::kTooLarge);
}

TEST(ComponentsTest, RowsAreNotSolvedBeforeTheirTreeIsThere) {
  ComponentShard shard(ComponentSpec(), 1, 0, 1);
  ASSERT_TRUE(shard->AppendPoints(Points(0, 50)).ok());
  const absl::Status early =
      shard->SolveRows({.table = "linear", .tree = 1, .first = 0, .count = 1}).status();
  EXPECT_EQ(ReasonFor(early), reason::kOutOfRange);
  EXPECT_THAT(std::string(early.message()), HasSubstr("put row 1 of table \"trees\" first"));
}

TEST(ComponentsTest, TheFusionComesBack) {
  ComponentShard shard(ComponentSpec(), 1, 0, 1);
  EXPECT_EQ(shard->GetRecord({"fusion", RowId(0)})->record, "");
  const std::string record =
      EncodeFusion({.points = 5, .weights = std::vector<float>(kFusionInputs, 0.25f)});
  ASSERT_TRUE(shard->PutRecord({"fusion", RowId(0), record}).ok());
  EXPECT_EQ(shard->GetRecord({"fusion", RowId(0)})->record, record);
}

}  // namespace
}  // namespace dslide::shard
