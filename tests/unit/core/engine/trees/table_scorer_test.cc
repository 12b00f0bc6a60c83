// Scores of a table's rows: the same bits whatever is listed, for any room and number of threads.

#include "core/engine/trees/table_scorer.h"

#include <gtest/gtest.h>

#include "core/base/counter_rng.h"

namespace dslide {
namespace {

constexpr int64_t kTableColumns = 2000;
constexpr int64_t kTableRows = 60;
constexpr int64_t kTableSamples = 5;

// Rows of 0 to 2000 entries; every seventh is absent.
std::unique_ptr<RecordStore> LongAndShortRows() {
  TableSpec spec;
  spec.name = "linear";
  spec.role = TableRole::kLinear;
  spec.rows = kTableRows;
  auto table = std::make_unique<RecordStore>(spec, ShardRows::All(kTableRows));
  CounterRng rng(3);
  DenseRow row;
  row.Resize(kTableColumns);
  for (uint32_t i = 0; i < kTableRows; ++i) {
    if (i % 7 == 6) continue;
    const uint64_t every = uint64_t{1} << (i % 12);
    for (uint32_t column = 0; column < kTableColumns; ++column) {
      if (rng.NextBelow(every) != 0) continue;
      row.Touch(column);
      row.weights[column] = rng.NextGaussian();
    }
    table->Put(LocalRow(i), EncodeSparseRow(row, rng.NextGaussian(), 1, 0));
    row.Clear();
  }
  return table;
}

struct SamplesOfAll {
  std::vector<std::vector<RowId>> features;
  std::vector<std::vector<float>> values;
  std::vector<LocalRow> rows;
  std::vector<std::vector<float>> scores;

  SamplesOfAll() : features(kTableSamples), values(kTableSamples), scores(kTableSamples) {
    CounterRng rng(4);
    for (uint32_t row = 0; row < kTableRows; ++row) rows.emplace_back(row);
    for (size_t s = 0; s < kTableSamples; ++s) {
      // Some features are none of the rows'.
      for (uint32_t feature = 0; feature < kTableColumns + 100; ++feature) {
        if (rng.NextBelow(100) != 0) continue;
        features[s].emplace_back(feature);
        values[s].push_back(rng.NextGaussian());
      }
      scores[s].resize(rows.size());
    }
  }

  std::vector<std::vector<float>> ScoredBy(TableScorer& scorer, const RecordStore& table) {
    std::vector<TableScorer::Asked> asked;
    for (size_t s = 0; s < kTableSamples; ++s) {
      asked.push_back({.features = features[s],
                       .values = values[s],
                       .rows = rows,
                       .scores = absl::MakeSpan(scores[s])});
    }
    scorer.Score(table, kTableColumns, asked);
    return scores;
  }
};

TEST(TableScorer, WhatIsKeptChangesNoBit) {
  const std::unique_ptr<RecordStore> table = LongAndShortRows();
  SamplesOfAll samples;
  TableScorer plain(Parallelism{1});
  const std::vector<std::vector<float>> wanted = samples.ScoredBy(plain, *table);
  EXPECT_EQ(plain.kept_bytes(), 0);
  int64_t kept = 0;
  // Too little for any row, for the longest ones alone, and enough.
  for (const int64_t room : {1, 50'000, 10'000'000}) {
    TableScorer scorer(Parallelism{room == 1 ? 1 : 3});
    scorer.Keep(*table, kTableColumns, 1000, room);
    EXPECT_EQ(samples.ScoredBy(scorer, *table), wanted) << room;
    EXPECT_LE(scorer.kept_bytes(), room);
    if (room > 1) {
      EXPECT_GT(scorer.kept_bytes(), kept) << room;
    }
    kept = scorer.kept_bytes();
  }
}

TEST(TableScorer, KeepsNothingForFewSamplesAndForgets) {
  const std::unique_ptr<RecordStore> table = LongAndShortRows();
  TableScorer scorer(Parallelism{1});
  scorer.Keep(*table, kTableColumns, 1000, 0);
  scorer.Keep(*table, kTableColumns, 64, 10'000'000);
  EXPECT_EQ(scorer.kept_bytes(), 0);
  scorer.Keep(*table, kTableColumns, 1, 10'000'000);
  EXPECT_GT(scorer.kept_bytes(), 0);
  scorer.Forget();
  EXPECT_EQ(scorer.kept_bytes(), 0);
  scorer.Keep(*table, kTableColumns, 1, 10'000'000);
  EXPECT_EQ(scorer.kept_bytes(), 0);
}

TEST(RowLists, AbsentRowsAreNotListed) {
  TableSpec spec;
  spec.rows = 10;
  const RecordStore table(spec, ShardRows::All(10));
  const RowLists lists(
      10, [&](uint32_t row) { return table.Record(LocalRow(row)); }, kTableColumns, 1 << 20,
      Parallelism{1});
  EXPECT_EQ(lists.listed(), 0);
  std::vector<float> sums;
  lists.AddUp({}, {}, sums);
  EXPECT_EQ(lists.PlaceOf(3), RowLists::kNotListed);
}

}  // namespace
}  // namespace dslide
