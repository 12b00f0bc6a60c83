// Memory, trees and linear rows on shards: the same bits for any number of shards and threads, and
// nothing done twice.

#include "services/shard/state/components.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "core/base/counter_rng.h"
#include "core/base/reason.h"
#include "core/engine/fusion/fusion_inputs.h"
#include "core/engine/fusion/fusion_record.h"
#include "core/engine/trees/label_centroid.h"
#include "core/protocol/reason_words.h"
#include "tests/unit/services/shard/state/component_samples.h"

namespace dslide::shard {
namespace {

using ::testing::HasSubstr;

std::string ReasonFor(const absl::Status& status) { return std::string(ReasonOf(status)); }

TEST(ComponentsTest, RowsAndAnswersDoNotDependOnShardsAndThreads) {
  const ModelSpec spec = ComponentSpec();
  std::map<uint32_t, std::string> alone;
  std::vector<Neighbour> near_alone;
  std::vector<float> scores_alone;
  FindNeighboursOp find{
      .table = "points", .inputs = ComponentPoints(20, 21).inputs, .k = 12, .left_out = {20}};
  for (const int shards : {1, 3, 5}) {
    std::map<uint32_t, std::string> rows;
    std::vector<Neighbour> near;
    std::map<uint32_t, float> scores;
    for (int number = 0; number < shards; ++number) {
      ComponentShard shard(spec, shards, number, 1 + number % 3);
      TrainComponents(shard);
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
      EXPECT_GT(rows.size(), 3u * kComponentLabels);
    }
    EXPECT_EQ(rows, alone);
    EXPECT_EQ(near, near_alone);
    EXPECT_EQ(by_row, scores_alone);
  }
}

TEST(ComponentsTest, RepeatedTrainingChangesNothing) {
  ComponentShard once(ComponentSpec(), 2, 1, 2);
  ComponentShard twice(ComponentSpec(), 2, 1, 2);
  TrainComponents(once);
  TrainComponents(twice);
  TrainComponents(twice);
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
  TrainComponents(shard);
  const FindNeighboursOp find{
      .table = "points", .inputs = ComponentPoints(30, 34).inputs, .k = 9, .left_out = {}};
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
  TrainComponents(shard);
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
  TrainComponents(shard);
  std::map<uint32_t, std::string> before;
  shard.Collect(0, before);
  AppendPointsOp other = ComponentPoints(3, 5);
  other.inputs.values[0] += 1;
  EXPECT_EQ(ReasonFor(shard->AppendPoints(other).status()), reason::kBadRowId);
  other = ComponentPoints(kComponentPoints, kComponentPoints + 1);
  other.labels.back() = RowId(kComponentLabels);
  EXPECT_EQ(ReasonFor(shard->AppendPoints(other).status()), reason::kBadRowId);
  other.table = "linear";
  EXPECT_EQ(ReasonFor(shard->AppendPoints(other).status()), reason::kWrongRole);
  other.table = "nothing";
  EXPECT_EQ(ReasonFor(shard->AppendPoints(other).status()), reason::kUnknownTable);
  std::map<uint32_t, std::string> after;
  shard.Collect(0, after);
  EXPECT_EQ(before, after);

  PutRecordOp tree = ComponentTree(0);
  tree.record.pop_back();
  EXPECT_EQ(ReasonFor(shard->PutRecord(tree).status()), reason::kBadSize);
  tree = ComponentTree(0);
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
           {.table = "linear", .tree = 0, .first = 0, .count = 1, .count_points = true},
           {.table = "linear", .tree = -1, .first = 0, .count = kComponentLabels + 1}}) {
    EXPECT_EQ(ReasonFor(shard->SolveRows(wrong).status()), reason::kOutOfRange);
  }
  ScoreRowsOp foreign{.table = "linear",
                      .inputs = ComponentPoints(0, 1).inputs,
                      .row_offsets = {0, 1},
                      .rows = {RowId(0)}};
  if (shard.store(2).rows().Holds(RowId(0))) foreign.rows[0] = RowId(1);
  EXPECT_EQ(ReasonFor(shard->ScoreRows(foreign).status()), reason::kForeignRow);
  foreign.rows[0] = RowId(1u << 30);
  EXPECT_EQ(ReasonFor(shard->ScoreRows(foreign).status()), reason::kForeignRow);
  const FindNeighboursOp find{
      .table = "points", .inputs = ComponentPoints(0, 50).inputs, .k = 100, .left_out = {}};
  EXPECT_EQ(ReasonFor(shard->FindNeighbours(find, 1000).status()), reason::kTooLarge);
}

TEST(ComponentsTest, LabelsThatWhoeverAsksKnowsAreLeftOut) {
  ComponentShard shard(ComponentSpec(), 1, 0, 1);
  ASSERT_TRUE(shard->AppendPoints(ComponentPoints(0, 50)).ok());
  FindNeighboursOp find{
      .table = "points", .inputs = ComponentPoints(0, 10).inputs, .k = 20, .left_out = {}};
  const auto all = shard->FindNeighbours(find, 1 << 20);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_FALSE(all->labels.empty());
  EXPECT_FALSE(all->labels_left_out);
  const auto last = *std::max_element(all->points.begin(), all->points.end());
  // One neighbour is not known: all labels travel.
  find.known_points = last.value();
  const auto most = shard->FindNeighbours(find, 1 << 20);
  EXPECT_FALSE(most->labels_left_out);
  EXPECT_EQ(most->labels, all->labels);
  EXPECT_EQ(most->label_offsets, all->label_offsets);
  find.known_points = int64_t{last.value()} + 1;
  const auto none = shard->FindNeighbours(find, 1 << 20);
  EXPECT_TRUE(none->labels_left_out);
  EXPECT_TRUE(none->labels.empty());
  EXPECT_EQ(none->points, all->points);
  EXPECT_EQ(none->similarities, all->similarities);
  EXPECT_EQ(none->counts, all->counts);

  find.known_points = shard.store(0).num_rows() + 1;
  EXPECT_EQ(ReasonFor(shard->FindNeighbours(find, 1 << 20).status()), reason::kOutOfRange);
}

TEST(ComponentsTest, RowsAreNotSolvedBeforeTheirTreeIsThere) {
  ComponentShard shard(ComponentSpec(), 1, 0, 1);
  ASSERT_TRUE(shard->AppendPoints(ComponentPoints(0, 50)).ok());
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

TEST(ComponentsTest, ListsOfLongRowsGoWithTheRows) {
  ComponentShard shard(ComponentSpec(), 1, 0, 1);
  // A point of label 1 with 300 features, and the centroids anew.
  const auto learn = [&](uint32_t number, float value) {
    AppendPointsOp op;
    op.table = "points";
    op.numbers = {number};
    for (uint32_t feature = 0; feature < 300; ++feature) op.inputs.features.emplace_back(feature);
    op.inputs.values.assign(300, value);
    op.inputs.values[number] = 1;
    op.inputs.offsets = {0, 300};
    op.labels = {RowId(1)};
    op.label_offsets = {0, 1};
    ASSERT_TRUE(shard->AppendPoints(op).ok());
    const auto solved =
        shard->SolveRows({.table = "linear", .tree = -1, .first = 0, .count = kComponentLabels});
    ASSERT_TRUE(solved.ok()) << solved.status();
  };
  const ScoreRowsOp score{.table = "linear",
                          .inputs = {.offsets = {0, 1}, .features = {RowId(0)}, .values = {1}},
                          .row_offsets = {0, 1},
                          .rows = {RowId(1)}};
  float before = 0;
  for (const uint32_t number : {0, 1}) {
    learn(number, 0.05f);
    EXPECT_EQ(shard->kept_bytes(), 0);
    const float scored = shard->ScoreRows(score)->scores[0];
    EXPECT_NE(scored, before);
    for (int i = 0; i < 70; ++i) EXPECT_EQ(shard->ScoreRows(score, 1 << 20)->scores[0], scored);
    EXPECT_GT(shard->kept_bytes(), 0);
    EXPECT_LE(shard->kept_bytes(), 1 << 20);
    before = scored;
  }
  const int64_t counted = shard->memory_bytes();
  shard->ForgetKept();
  EXPECT_EQ(shard->kept_bytes(), 0);
  EXPECT_EQ(shard->memory_bytes(), counted);
  EXPECT_EQ(shard->ScoreRows(score)->scores[0], before);
}

}  // namespace
}  // namespace dslide::shard
