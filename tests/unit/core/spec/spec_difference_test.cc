#include "core/spec/spec_difference.h"

#include <gtest/gtest.h>

namespace dslide {
namespace {

ModelSpec KnownSpec() {
  ModelSpec spec;
  spec.name = "m";
  spec.tables.resize(2);
  for (TableSpec& table : spec.tables) table.dim = 4;
  spec.tables[0].name = "in";
  spec.tables[1].name = "out";
  spec.tables[1].role = TableRole::kHead;
  return spec;
}

TEST(SpecDifferenceTest, WhatBelongsToAJobIsNoDifference) {
  ModelSpec other = KnownSpec();
  other.training.max_epochs = 14;
  other.training.batch_size = 7;
  other.training.input_dropout = 0.25;
  other.training.order_seed = 9;
  other.tables[1].optimizer.learning_rate = 0.5;
  other.tables[0].optimizer.schedule = {.kind = ScheduleKind::kLinear, .decay_steps = 8};
  EXPECT_FALSE(FirstDifference(KnownSpec(), other).has_value());
}

TEST(SpecDifferenceTest, WhatRowsAndPredictionsDependOnIsNamedWithBothValues) {
  struct Case {
    const char* text;
    void (*change)(ModelSpec& spec);
  };
  const Case cases[] = {
      {"seed is 1, not 2", [](ModelSpec& s) { s.seed = 2; }},
      {"tables[1].dim is 4, not 8", [](ModelSpec& s) { s.tables[1].dim = 8; }},
      {"tables[0].precision is \"f32\", not \"bf16\"",
       [](ModelSpec& s) { s.tables[0].precision = RowPrecision::kBf16; }},
      {"tables[1].optimizer.kind is \"adam\", not \"sgd\"",
       [](ModelSpec& s) { s.tables[1].optimizer.kind = OptimizerKind::kSgd; }},
      {"tables[1].optimizer.weight_decay is 0.0, not 0.5",
       [](ModelSpec& s) { s.tables[1].optimizer.weight_decay = 0.5; }},
      // On the disk and here it is absent where it is 0.
      {"tables[1].head.hash.searched_tables is absent, not 4",
       [](ModelSpec& s) { s.tables[1].head.hash.searched_tables = 4; }},
      {"training.transform is \"l2\", not \"raw\"",
       [](ModelSpec& s) { s.training.transform = InputTransform::kRaw; }},
  };
  for (const Case& c : cases) {
    ModelSpec other = KnownSpec();
    c.change(other);
    const auto difference = FirstDifference(KnownSpec(), other);
    ASSERT_TRUE(difference.has_value()) << c.text;
    EXPECT_EQ(Describe(*difference), c.text);
  }
  ModelSpec shorter = KnownSpec();
  shorter.tables.pop_back();
  EXPECT_EQ(FirstDifference(KnownSpec(), shorter)->field, "tables[1]");
  EXPECT_LT(Describe(*FirstDifference(KnownSpec(), shorter)).size(), 150u);
}

TEST(SpecDifferenceTest, TrainersOfOneJobMayKeepMoreStepsMoving) {
  TrainingSpec other;
  other.in_flight_steps = 9;
  EXPECT_FALSE(FirstDifference(TrainingSpec(), other).has_value());
  other.hidden_dropout = 0.5;
  EXPECT_EQ(Describe(*FirstDifference(TrainingSpec(), other)),
            "training.hidden_dropout is 0.0, not 0.5");
}

TEST(SpecDifferenceTest, RatesAreThoseOfTheTablesOfFloats) {
  ModelSpec spec = KnownSpec();
  spec.tables.emplace_back().role = TableRole::kMemory;
  spec.tables[1].optimizer.learning_rate = 0.5;
  const std::vector<TableRate> rates = RatesOf(spec);
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_EQ(rates[1].table, "out");
  EXPECT_EQ(rates[1].learning_rate, 0.5);
  EXPECT_EQ(FirstDifference(rates[0], rates[1])->field, "table");
}

}  // namespace
}  // namespace dslide
