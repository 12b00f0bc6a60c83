#include "core/spec/model_spec.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/reference/model_samples.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;

ModelSpec GoodSpec() {
  reference::ModelShape shape;
  shape.dense = {6, 5};
  shape.max_active = 10;
  return reference::MakeSpec(shape);
}

struct BadCase {
  std::function<void(ModelSpec&)> spoil;
  std::string message;
};

TEST(ModelSpecTest, AcceptsGoodSpecs) {
  EXPECT_TRUE(GoodSpec().Validate(true).ok()) << GoodSpec().Validate(true);
  ModelSpec rows_only = GoodSpec();
  rows_only.tables.resize(1);
  EXPECT_TRUE(rows_only.Validate(true).ok());
  ModelSpec head_only = GoodSpec();
  head_only.tables.erase(head_only.tables.begin(), head_only.tables.end() - 1);
  EXPECT_TRUE(head_only.Validate(true).ok());
}

TEST(ModelSpecTest, SizesFromTheDataAreRefusedOnlyWhenSizesAreKnown) {
  ModelSpec spec = GoodSpec();
  spec.tables[0].rows = 0;
  EXPECT_TRUE(spec.Validate(false).ok());
  EXPECT_THAT(std::string(spec.Validate(true).message()), HasSubstr("tables[0].rows is 0"));
}

TEST(ModelSpecTest, NamesTheFieldTheValueAndTheRange) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<BadCase> cases = {
      {[](auto& s) { s.name = ""; }, "name is \"\", must be 1 to 64"},
      {[](auto& s) { s.name = "Big"; }, "name is \"Big\""},
      {[](auto& s) { s.name = std::string(65, 'a'); }, "must be 1 to 64"},
      {[](auto& s) { s.tables.clear(); }, "tables has 0 entries, must have 1 to 64"},
      {[](auto& s) { s.tables.resize(65, s.tables[1]); }, "tables has 65 entries"},
      {[](auto& s) { s.tables[1].name = "a b"; }, "tables[1].name is \"a b\""},
      {[](auto& s) { s.tables[2].name = "dense-0"; },
       "tables[2].name is \"dense-0\", the name of tables[1] too"},
      {[](auto& s) { s.tables[0].rows = -1; }, "tables[0].rows is -1, must be in [0, 2147483648]"},
      {[](auto& s) { s.tables[0].rows = kMaxTableRows + 1; }, "tables[0].rows is 2147483649"},
      {[](auto& s) { s.tables[1].rows = 0; }, "tables[1].rows is 0, must be in [1, 65536]"},
      {[](auto& s) { s.tables[0].dim = 0; }, "tables[0].dim is 0, must be in [1, 65536]"},
      {[](auto& s) { s.tables[1].dim = 9; },
       "tables[1].dim is 9, must be 8, the width of tables[0] (\"input\")"},
      {[](auto& s) { s.tables[3].dim = 6; }, "tables[3].dim is 6, must be 5"},
      {[](auto& s) { s.tables[0].num_slots = 0; },
       "tables[0].num_slots is 0, must be in [1, 65536]"},
      {[](auto& s) { s.tables[1].bias_row = true; }, "tables[1].bias_row is true, but only"},
      {[&](auto& s) { s.tables[0].init.scale = nan; }, "tables[0].init.scale is nan"},
      {[](auto& s) { s.tables[0].init.scale = -1; },
       "tables[0].init.scale is -1, must be 0 or more"},
      {[](auto& s) { s.tables[0].optimizer.learning_rate = 0; },
       "tables[0].optimizer.learning_rate is 0"},
      {[](auto& s) { s.tables[0].optimizer.schedule.warmup_steps = -1; },
       "tables[0].optimizer.schedule.warmup_steps is -1"},
      {[](auto& s) { s.tables[0].head.max_active = 3; }, "tables[0].head is set, but"},
      {[](auto& s) { s.tables[3].head.max_active = -2; },
       "tables[3].head.max_active is -2, must be in [0, 2147483648]"},
      {[](auto& s) { s.tables[3].head.tail_rows = -2; }, "tables[3].head.tail_rows is -2"},
      {[](auto& s) { s.tables[3].head.sampled_candidates = s.tables[3].head.max_active; },
       "tables[3].head.sampled_candidates is 10, must be in [0, 9]"},
      {[](auto& s) {
         s.tables[3].head.max_active = 0;
         s.tables[3].head.sampled_candidates = 1;
       },
       "tables[3].head.sampled_candidates is 1, must be in [0, 0]"},
      {[](auto& s) {
         s.tables[3].head.sampled_candidates = 2;
         s.tables[3].head.hash.proposed_per_sample = 8;
       },
       "samples that share candidates draw none: set one of them to 0"},
      {[](auto& s) { s.tables[3].head.hash.num_tables = -1; },
       "tables[3].head.hash.num_tables is -1, must be in [0, 256]"},
      {[](auto& s) { s.tables[3].head.recall_samples = -1; },
       "tables[3].head.recall_samples is -1"},
      {[](auto& s) { s.tables[3].head.recall_every_steps = -1; },
       "tables[3].head.recall_every_steps is -1, must be in [0, 1000000]"},
      {[](auto& s) { std::swap(s.tables[0], s.tables[1]); }, "tables[1].role is out of order"},
      {[](auto& s) {
         s.tables.push_back(s.tables[3]);
         s.tables[4].name = "out-2";
       },
       "tables[4].role is out of order"},
      {[](auto& s) { s.magnitude_bound = 0; }, "magnitude_bound is 0, must be in (0, 1e30]"},
      {[&](auto& s) { s.magnitude_bound = nan; }, "magnitude_bound is nan"},
      {[](auto& s) { s.training.input_dropout = 1.0; },
       "training.input_dropout is 1, must be in [0, 1)"},
      {[](auto& s) { s.training.hidden_dropout = -0.1; }, "training.hidden_dropout is -0.1"},
      {[](auto& s) { s.training.batch_size = 0; },
       "training.batch_size is 0, must be in [1, 65536]"},
      {[](auto& s) { s.training.in_flight_steps = 65; }, "training.in_flight_steps is 65"},
      {[](auto& s) { s.training.max_epochs = 0; }, "training.max_epochs is 0"},
      {[](auto& s) { s.training.chunk_samples = -1; }, "training.chunk_samples is -1"},
      {[](auto& s) { s.training.validation_fraction = 0.6; },
       "training.validation_fraction is 0.6, must be in [0, 0.5]"},
      {[](auto& s) { s.training.validation_max_samples = -1; },
       "training.validation_max_samples is -1"},
      {[](auto& s) { s.training.patience_epochs = -1; }, "training.patience_epochs is -1"},
      {[](auto& s) { s.tables[0].optimizer.average_decay = 1.0; },
       "optimizer.average_decay is 1; it must be in [0, 1)"},
      {[](auto& s) { s.training.propensity_strength = 1.5; },
       "training.propensity_strength is 1.5, must be in [0, 1]"},
      {[](auto& s) {
         s.training.propensity_strength = 1;
         for (TableSpec& table : s.tables) {
           if (table.role == TableRole::kHead) table.head.loss = HeadLoss::kSigmoid;
         }
       },
       "training.propensity_strength is 1, which needs a head with the loss softmax"},
  };
  for (const BadCase& bad : cases) {
    ModelSpec spec = GoodSpec();
    bad.spoil(spec);
    const absl::Status status = spec.Validate(false);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.message));
  }
}

TableSpec AnyRecordTable(TableRole role) {
  TableSpec table;
  table.name = absl::StrReplaceAll(RoleName(role), {{"_", "-"}});
  table.role = role;
  // Of 30 labels in four trees that are one cut deep.
  table.rows = role == TableRole::kFusion ? 1 : role == TableRole::kLabelTrees ? 5 : 158;
  if (role == TableRole::kMemory) table.memory.labels = 30;
  if (role == TableRole::kLabelTrees) table.trees.depth = 1;
  return table;
}

// Behind the tables of floats.
ModelSpec WithRecords(ModelSpec spec = GoodSpec()) {
  for (const TableRole role :
       {TableRole::kMemory, TableRole::kLabelTrees, TableRole::kLinear, TableRole::kFusion}) {
    spec.tables.push_back(AnyRecordTable(role));
  }
  return spec;
}

TEST(ModelSpecTest, AcceptsTablesOfRecordsBesideOthersAndAlone) {
  EXPECT_TRUE(WithRecords().Validate(true).ok()) << WithRecords().Validate(true);
  ModelSpec alone = WithRecords();
  alone.tables.erase(alone.tables.begin(), alone.tables.end() - 4);
  EXPECT_TRUE(alone.Validate(true).ok()) << alone.Validate(true);
  alone.tables.resize(1);
  EXPECT_TRUE(alone.Validate(true).ok()) << alone.Validate(true);
  ModelSpec open = WithRecords();
  for (size_t i = 4; i < 8; ++i) open.tables[i].rows = 0;
  open.tables[4].memory.labels = 0;
  open.tables[5].trees.depth = -1;
  EXPECT_TRUE(open.Validate(false).ok()) << open.Validate(false);
  EXPECT_FALSE(open.Validate(true).ok());
}

TEST(ModelSpecTest, KnowsWhichTablesAreOfRecordsAndOnEveryShard) {
  EXPECT_FALSE(IsRecordRole(TableRole::kEmbedding) || IsRecordRole(TableRole::kDense) ||
               IsRecordRole(TableRole::kHead));
  for (const TableSpec& table : WithRecords({}).tables) {
    EXPECT_TRUE(IsRecordRole(table.role));
    EXPECT_EQ(IsReplicated(table.role), table.role != TableRole::kLinear);
  }
  EXPECT_FALSE(IsReplicated(TableRole::kHead));
}

TEST(ModelSpecTest, NamesWhatIsWrongWithTablesOfRecords) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<BadCase> cases = {
      {[](auto& s) { s.tables[4].memory.neighbours = 0; },
       "tables[4].memory.neighbours is 0, must be in [1, 1000]"},
      {[&](auto& s) { s.tables[4].memory.similarity_power = nan; },
       "tables[4].memory.similarity_power is nan, must be in [0, 8]"},
      {[](auto& s) { s.tables[4].memory.candidates = 4097; },
       "tables[4].memory.candidates is 4097, must be in [1, 4096]"},
      {[](auto& s) { s.tables[5].trees.trees = 17; }, "tables[5].trees.trees is 17"},
      {[](auto& s) { s.tables[4].memory.labels = 0; }, "tables[4].memory.labels is 0 (\"from the"},
      {[](auto& s) { s.tables[5].trees.depth = -1; }, "tables[5].trees.depth is -1"},
      {[](auto& s) { s.tables[5].rows = 4; }, "table \"label-trees\" has 4 rows, its trees need 5"},
      {[](auto& s) { s.tables[6].rows = 5; }, "table \"linear\" has 5 rows, its trees need 158"},
      {[](auto& s) { s.tables[5].trees.leaf_labels = 1; }, "tables[5].trees.leaf_labels is 1"},
      {[](auto& s) { s.tables[5].trees.level_step = 0; }, "tables[5].trees.level_step is 0"},
      {[](auto& s) { s.tables[6].linear.cost = 0; },
       "tables[6].linear.cost is 0, must be in (0, 1e6]"},
      {[](auto& s) { s.tables[6].linear.passes = 0; }, "tables[6].linear.passes is 0"},
      {[](auto& s) { s.tables[6].linear.drop_below = -1; },
       "tables[6].linear.drop_below is -1, must be in [0, 1000]"},
      {[](auto& s) { s.tables[7].rows = 2; }, "tables[7].rows is 2, must be in [1, 1]"},
      {[](auto& s) { s.tables[4].rows = 0; }, "tables[4].rows is 0 (\"from the data\")"},
      {[](auto& s) { s.tables[4].dim = 8; },
       "tables[4].dim is set, but a table of the role memory has records"},
      {[](auto& s) { s.tables[6].precision = RowPrecision::kBf16; },
       "tables[6].precision is set, but a table of the role linear"},
      {[](auto& s) { s.tables[6].optimizer.learning_rate = 0.5; }, "tables[6].optimizer is set"},
      {[](auto& s) { s.tables[6].init.scale = 0.5; }, "tables[6].init is set"},
      {[](auto& s) { s.tables[6].bias_row = true; }, "tables[6].bias_row is set"},
      {[](auto& s) { s.tables[6].memory.neighbours = 7; },
       "tables[6].memory is set, but the table's role is not memory"},
      {[](auto& s) { s.tables[0].trees.trees = 7; },
       "tables[0].trees is set, but the table's role is not label_trees"},
      {[](auto& s) { s.tables[4].linear.passes = 7; }, "tables[4].linear is set"},
      {[](auto& s) { s.tables[4].head.max_active = 7; }, "tables[4].head is set"},
      {[](auto& s) { s.tables[4].role = static_cast<TableRole>(99); }, "tables[4].role is 99"},
      {[](auto& s) { std::swap(s.tables[3], s.tables[4]); },
       "tables[4].role is out of order: head stands before the tables of records"},
      {[](auto& s) { s.tables[7] = s.tables[4], s.tables[7].name = "more"; },
       "tables has 2 of the role memory, must have at most one"},
      {[](auto& s) { s.tables.erase(s.tables.begin() + 4); },
       "tables has one of the role label_trees, which needs one of the role memory"},
      {[](auto& s) { s.tables.erase(s.tables.begin() + 5); },
       "tables has one of the role linear, which needs one of the role label_trees"},
      {[](auto& s) { s.tables.erase(s.tables.begin() + 6); },
       "tables has one of the role label_trees, which needs one of the role linear"},
      {[](auto& s) { s.tables.erase(s.tables.begin() + 4, s.tables.begin() + 7); },
       "tables has one of the role fusion, which needs one of the role memory"},
  };
  for (const BadCase& bad : cases) {
    ModelSpec spec = WithRecords();
    bad.spoil(spec);
    const absl::Status status = spec.Validate(true);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.message));
  }
}

TEST(ModelSpecTest, FindsTablesByNameAndRole) {
  const ModelSpec spec = GoodSpec();
  EXPECT_EQ(spec.FindTable("dense-1"), &spec.tables[2]);
  EXPECT_EQ(spec.FindTable("nothing"), nullptr);
  EXPECT_EQ(spec.FindRole(TableRole::kDense), &spec.tables[1]);
  EXPECT_EQ(spec.FindRole(TableRole::kHead), &spec.tables[3]);
  EXPECT_EQ(ModelSpec().FindRole(TableRole::kHead), nullptr);
}

TEST(ModelSpecTest, AResolvedHeadHasNoOpenSettings) {
  TableSpec head = GoodSpec().tables[3];
  head.rows = 41000;
  head.head.recall_every_steps = 7;
  EXPECT_EQ(ResolvedHead(head), head.head) << "a set value stays";
  head.head.hash.codes_per_table = 0;
  head.head.recall_every_steps = 0;
  EXPECT_EQ(ResolvedHead(head).hash, ResolveHashSpec(head.head.hash, 41000));
  const int64_t often = ResolvedHead(head).recall_every_steps;
  head.rows = 4'100'000;
  EXPECT_GT(ResolvedHead(head).recall_every_steps, 20 * often) << "scanning all rows costs time";
}

}  // namespace
}  // namespace dslide
