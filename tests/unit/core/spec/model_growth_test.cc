#include "core/spec/model_growth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/spec/spec_difference.h"
#include "core/spec/table_rows.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;

TableSpec Table(const std::string& name, TableRole role, int64_t rows) {
  TableSpec table;
  table.name = name;
  table.role = role;
  table.rows = rows;
  table.dim = IsRecordRole(role) ? 0 : 8;
  return table;
}

ModelSpec Network(int64_t labels = 100) {
  ModelSpec spec;
  spec.name = "m";
  spec.tables = {Table("input", TableRole::kEmbedding, 41), Table("middle", TableRole::kDense, 8),
                 Table("labels", TableRole::kHead, labels)};
  spec.tables[0].bias_row = true;
  return spec;
}

// A network beside a memory, trees and linear rows.
ModelSpec NetworkWithRecords(int64_t labels = 100) {
  ModelSpec spec = Network(labels);
  spec.tables.push_back(Table("memory", TableRole::kMemory, 10));
  spec.tables.back().memory.labels = labels;
  spec.tables.push_back(Table("trees", TableRole::kLabelTrees, 0));
  spec.tables.back().trees.depth = 2;
  spec.tables.push_back(Table("linear", TableRole::kLinear, 0));
  FillTreeRows(spec);
  return spec;
}

TEST(ModelGrowthTest, ATableGetsRowsAndKeepsWhatItWasMadeFor) {
  const ModelSpec grown = *GrowTable(Network(), "labels", 5000);
  EXPECT_EQ(grown.tables[2].rows, 5000);
  EXPECT_EQ(grown.tables[2].base_rows, 100);
  const ModelSpec again = *GrowTable(grown, "labels", 600000);
  EXPECT_EQ(again.tables[2].base_rows, 100);
  // Who hashes by the number of rows hashes as before.
  EXPECT_EQ(ResolvedHead(again.tables[2]), ResolvedHead(Network().tables[2]));
  EXPECT_NE(ResolvedHead(again.tables[2]), ResolvedHead(Network(600000).tables[2]));
  EXPECT_EQ(*GrowTable(grown, "labels", 5000), grown);
  EXPECT_EQ(*GrowTable(Network(), "labels", 100), Network());
}

TEST(ModelGrowthTest, TheBiasRowStaysWhereItIs) {
  const ModelSpec grown = *GrowTable(Network(), "input", 51);
  EXPECT_EQ(BiasRow(grown.tables[0]), 40);
  EXPECT_EQ(NumFeatures(grown.tables[0]), 50);
  EXPECT_EQ(BaseFeatures(grown.tables[0]), 40);
}

TEST(ModelGrowthTest, RefusalsSayWhatAndWhy) {
  const auto message = [](const absl::StatusOr<ModelSpec>& grown) {
    return std::string(grown.status().message());
  };
  EXPECT_EQ(GrowTable(Network(), "labels", 99).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(message(GrowTable(Network(), "labels", 99)), HasSubstr("has 100 rows, 99 are fewer"));
  EXPECT_THAT(message(GrowTable(Network(), "middle", 9)), HasSubstr("of the role dense"));
  EXPECT_TRUE(absl::IsNotFound(GrowTable(Network(), "none", 9).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(GrowTable(Network(), "labels", int64_t{1} << 40).status()));
  const ModelSpec records = NetworkWithRecords();
  EXPECT_THAT(message(GrowTable(records, "trees", 200)), HasSubstr("grow by --labels"));
  EXPECT_THAT(message(GrowTable(records, "linear", 9000)), HasSubstr("grow by --labels"));
  EXPECT_THAT(message(GrowTable(records, "memory", 9)), HasSubstr("never shrink"));
  EXPECT_THAT(message(GrowLabels(records, 99)), HasSubstr("never shrink"));
  // Points would have to move between shards.
  ModelSpec bare;
  bare.name = "m";
  bare.tables = {records.tables[3]};
  EXPECT_THAT(message(GrowTable(bare, "memory", 20)), HasSubstr("has no label trees"));
  EXPECT_EQ(GrowLabels(bare, 200)->num_labels(), 200);
  EXPECT_THAT(message(GrowSpec(records, {})), HasSubstr("name a table"));
  EXPECT_THAT(message(GrowSpec(records, {.table = "memory", .rows = 20, .labels = 200})),
              HasSubstr("name a table"));
}

TEST(ModelGrowthTest, LabelsGrowInAllTablesThatHaveThem) {
  const ModelSpec before = NetworkWithRecords();
  const ModelSpec grown = *GrowLabels(before, 130);
  EXPECT_EQ(*GrowTable(before, "labels", 130), grown);
  EXPECT_EQ(*GrowSpec(before, {.labels = 130}), grown);
  EXPECT_EQ(grown.tables[2].rows, 130);
  EXPECT_EQ(grown.tables[2].base_rows, 100);
  EXPECT_EQ(grown.tables[3].memory.labels, 130);
  EXPECT_EQ(grown.tables[3].memory.base_labels, 100);
  EXPECT_EQ(grown.tables[3].rows, 10);
  EXPECT_EQ(grown.tables[5].rows, before.tables[5].rows + 30 * 5);
  EXPECT_EQ(GrowLabels(*GrowLabels(grown, 150), 200)->tables[3].memory.base_labels, 100);
  EXPECT_EQ(*GrowLabels(*GrowLabels(before, 115), 130), grown);
  EXPECT_EQ(*GrowLabels(grown, 130), grown);
  EXPECT_EQ(SizeBefore(grown, {.labels = 1}), 130);
  EXPECT_EQ(SizeBefore(grown, {.table = "memory", .rows = 1}), 10);

  EXPECT_TRUE(IsGrownFrom(before, grown));
  EXPECT_FALSE(IsGrownFrom(grown, before));
  EXPECT_FALSE(FirstDifference(grown, before).has_value());
  EXPECT_TRUE(FirstDifference(before, grown).has_value());
  EXPECT_EQ(AsGrown(grown, before), grown);
  EXPECT_EQ(GrowthFlags(before, grown), "--labels 130");
  const ModelSpec roomy = *GrowTable(before, "memory", 25);
  EXPECT_EQ(roomy.tables[3].base_rows, 10);
  EXPECT_EQ(GrowthFlags(before, roomy), "--table memory --rows 25");
  EXPECT_TRUE(IsGrownFrom(before, roomy));
  // What was made for other data is another model.
  EXPECT_TRUE(FirstDifference(grown, NetworkWithRecords(130)).has_value());
}

TEST(ModelGrowthTest, TheSameModelWithFewerRowsIsEqualUntilItHasMore) {
  const ModelSpec grown = *GrowTable(Network(), "labels", 200);
  EXPECT_FALSE(FirstDifference(grown, Network()).has_value());
  EXPECT_FALSE(FirstDifference(grown, *GrowTable(Network(), "labels", 150)).has_value());
  EXPECT_EQ(FirstDifference(Network(), grown)->field, "tables[2].rows");
  EXPECT_TRUE(IsGrownFrom(Network(), grown));
  EXPECT_FALSE(IsGrownFrom(grown, Network()));
  EXPECT_FALSE(IsGrownFrom(grown, grown));
  // What was made for other data is another model, whatever its size.
  EXPECT_TRUE(FirstDifference(grown, Network(150)).has_value());
  EXPECT_TRUE(FirstDifference(grown, Network(90)).has_value());
  ModelSpec other = grown;
  other.tables[0].dim = other.tables[1].dim = 16;
  EXPECT_FALSE(IsGrownFrom(Network(), other));
}

TEST(ModelGrowthTest, RowsOfBeforeAreFewerThanRows) {
  ModelSpec spec = Network();
  spec.tables[2].base_rows = 100;
  EXPECT_THAT(std::string(spec.Validate(true).message()), HasSubstr("tables[2].base_rows is 100"));
  spec = Network();
  spec.tables[1].base_rows = 4;
  EXPECT_FALSE(spec.Validate(true).ok());
}

}  // namespace
}  // namespace dslide
