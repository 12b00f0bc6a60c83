#include "core/model/model_spec.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

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
  };
  for (const BadCase& bad : cases) {
    ModelSpec spec = GoodSpec();
    bad.spoil(spec);
    const absl::Status status = spec.Validate(false);
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
