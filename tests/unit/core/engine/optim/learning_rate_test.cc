#include <vector>

#include "core/engine/optim/optimizer.h"
#include "gtest/gtest.h"
#include "tests/reference/optim_reference.h"

namespace dslide {
namespace {

OptimizerSpec WithSchedule(ScheduleKind kind, int64_t warmup, int64_t decay,
                           double final_fraction) {
  OptimizerSpec spec;
  spec.learning_rate = 0.4;
  spec.schedule = {
      .kind = kind, .warmup_steps = warmup, .decay_steps = decay, .final_fraction = final_fraction};
  return spec;
}

double RateAt(const OptimizerSpec& spec, int64_t step) { return LearningRateAt(spec, Step(step)); }

TEST(LearningRateTest, ConstantIsTheBaseRateForever) {
  const OptimizerSpec spec = WithSchedule(ScheduleKind::kConstant, 0, 0, 0.0);
  for (const int64_t step : {1, 2, 1000, 1 << 30}) EXPECT_DOUBLE_EQ(RateAt(spec, step), 0.4);
}

TEST(LearningRateTest, WarmUpRisesLinearlyForEveryKind) {
  for (const ScheduleKind kind :
       {ScheduleKind::kConstant, ScheduleKind::kLinear, ScheduleKind::kCosine}) {
    const OptimizerSpec spec = WithSchedule(kind, 8, 100, 0.1);
    EXPECT_DOUBLE_EQ(RateAt(spec, 1), 0.05);
    EXPECT_DOUBLE_EQ(RateAt(spec, 4), 0.2);
    EXPECT_DOUBLE_EQ(RateAt(spec, 7), 0.35);
    EXPECT_DOUBLE_EQ(RateAt(spec, 8), 0.4);
  }
}

TEST(LearningRateTest, LinearEndsAtTheFinalFraction) {
  const OptimizerSpec spec = WithSchedule(ScheduleKind::kLinear, 8, 100, 0.25);
  EXPECT_DOUBLE_EQ(RateAt(spec, 58), 0.25);
  EXPECT_DOUBLE_EQ(RateAt(spec, 108), 0.1);
  EXPECT_DOUBLE_EQ(RateAt(spec, 109), 0.1);
  EXPECT_DOUBLE_EQ(RateAt(spec, 1 << 30), 0.1);
}

TEST(LearningRateTest, CosineIsHalfWayInTheMiddleAndEndsAtTheFinalFraction) {
  const OptimizerSpec spec = WithSchedule(ScheduleKind::kCosine, 8, 100, 0.25);
  EXPECT_DOUBLE_EQ(RateAt(spec, 58), 0.25);
  EXPECT_GT(RateAt(spec, 33), 0.325) << "a cosine starts flatter than a line";
  EXPECT_DOUBLE_EQ(RateAt(spec, 108), 0.1);
  EXPECT_DOUBLE_EQ(RateAt(spec, 5000), 0.1);
}

TEST(LearningRateTest, AgreesWithTheReferenceAtEveryStep) {
  for (const ScheduleKind kind :
       {ScheduleKind::kConstant, ScheduleKind::kLinear, ScheduleKind::kCosine}) {
    for (const int64_t warmup : {0, 1, 13}) {
      for (const int64_t decay : {1, 50}) {
        for (const double final_fraction : {0.0, 0.3, 1.0}) {
          const OptimizerSpec spec = WithSchedule(kind, warmup, decay, final_fraction);
          for (int64_t step = 1; step < 80; ++step) {
            ASSERT_NEAR(RateAt(spec, step), reference::LearningRate(spec, step), 1e-15);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace dslide
