#include "core/spec/optimizer_spec.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "core/engine/optim/optimizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A spec with one field changed, and what the refusal must name.
struct BadSpec {
  std::function<void(OptimizerSpec&)> change;
  std::string field;
  std::string value;
};

TEST(OptimizerSpecTest, DefaultsAreValid) { EXPECT_TRUE(OptimizerSpec().Validate().ok()); }

TEST(OptimizerSpecTest, RefusalsNameFieldAndValue) {
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<BadSpec> bad = {
      {[](OptimizerSpec& s) { s.learning_rate = 0.0; }, "optimizer.learning_rate", "0"},
      {[](OptimizerSpec& s) { s.learning_rate = -0.5; }, "optimizer.learning_rate", "-0.5"},
      {[=](OptimizerSpec& s) { s.learning_rate = nan; }, "optimizer.learning_rate", "nan"},
      {[=](OptimizerSpec& s) { s.learning_rate = infinity; }, "optimizer.learning_rate", "inf"},
      {[](OptimizerSpec& s) { s.beta1 = 1.0; }, "optimizer.beta1", "1"},
      {[](OptimizerSpec& s) { s.beta1 = -0.1; }, "optimizer.beta1", "-0.1"},
      {[](OptimizerSpec& s) { s.beta2 = 1.5; }, "optimizer.beta2", "1.5"},
      {[=](OptimizerSpec& s) { s.beta2 = nan; }, "optimizer.beta2", "nan"},
      {[](OptimizerSpec& s) { s.epsilon = 0.0; }, "optimizer.epsilon", "0"},
      {[](OptimizerSpec& s) { s.epsilon = 1e-20; }, "optimizer.epsilon", "1e-20"},
      {[](OptimizerSpec& s) { s.weight_decay = -1.0; }, "optimizer.weight_decay", "-1"},
      {[](OptimizerSpec& s) { s.weight_decay = 1.5; }, "optimizer.weight_decay", "1.5"},
      {[](OptimizerSpec& s) {
         s.learning_rate = 2.5;
         s.weight_decay = 0.5;
       },
       "learning_rate * optimizer.weight_decay", "1.25"},
      {[](OptimizerSpec& s) { s.schedule.warmup_steps = -3; }, "schedule.warmup_steps", "-3"},
      {[](OptimizerSpec& s) { s.schedule.decay_steps = -4; }, "schedule.decay_steps", "-4"},
      {[](OptimizerSpec& s) { s.schedule.kind = ScheduleKind::kLinear; }, "schedule.decay_steps",
       "0"},
      {[](OptimizerSpec& s) { s.schedule.kind = ScheduleKind::kCosine; }, "schedule.decay_steps",
       "0"},
      {[](OptimizerSpec& s) { s.schedule.final_fraction = 1.1; }, "schedule.final_fraction", "1.1"},
      {[=](OptimizerSpec& s) { s.schedule.final_fraction = nan; }, "schedule.final_fraction",
       "nan"},
  };
  for (const BadSpec& entry : bad) {
    OptimizerSpec spec;
    entry.change(spec);
    const absl::Status status = spec.Validate();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << entry.field;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(entry.field), HasSubstr("is " + entry.value + ";")));
    EXPECT_EQ(Optimizer::Create(spec).status(), status);
  }
}

TEST(OptimizerSpecTest, AnUnknownKindMakesNoOptimizer) {
  OptimizerSpec spec;
  spec.kind = static_cast<OptimizerKind>(17);
  const auto optimizer = Optimizer::Create(spec);
  EXPECT_EQ(optimizer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(optimizer.status().message()), HasSubstr("17"));
}

}  // namespace
}  // namespace dslide
