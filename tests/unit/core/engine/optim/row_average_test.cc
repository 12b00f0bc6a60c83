#include "core/engine/optim/row_average.h"

#include <cmath>
#include <limits>

#include "core/base/counter_rng.h"
#include "gtest/gtest.h"
#include "tests/reference/optim_reference.h"

namespace dslide {
namespace {

// A number that moves in some steps: its lag, kept lazily in f32, against its average, computed in
// every step in f64.
void ExpectLazyEqualsDense(double decay, double touched_share, int64_t first_touched) {
  constexpr int64_t kSteps = 600;
  const RowAverage average(decay);
  reference::MovingAverage dense(decay);
  CounterRng rng(17);
  float value = 2.0f;  // as it starts; no step has counted it
  float lag = 0.0f;
  Step last(0);
  for (int64_t step = 1; step <= kSteps; ++step) {
    if (step >= first_touched && rng.NextUniform() < touched_share) {
      const float next = value + rng.NextUniform() - 0.5f;
      const RowAverage::LagFactors factors = average.FactorsOf(last, Step(step));
      lag = factors.keep * lag + factors.blend * (value - next);
      value = next;
      last = Step(step);
    }
    dense.Add(double{value});
    // Each update rounds its two factors, two products, a difference and a sum: six roundings of
    // numbers below 32, and no error grows afterwards.
    const double bound = static_cast<double>(step) * 6.0 * 32.0 * 0x1.0p-24;
    const double lazy = double{value} + double{average.Remaining(last, Step(step))} * double{lag};
    ASSERT_NEAR(lazy, dense.Mean(), bound) << decay << " at step " << step;
  }
}

TEST(RowAverageTest, EqualsTheAverageThatIsComputedInEveryStep) {
  for (const double decay : {0.5, 0.9, 0.99, 0.999}) {
    ExpectLazyEqualsDense(decay, 1.0, 1);
    ExpectLazyEqualsDense(decay, 0.3, 1);
    ExpectLazyEqualsDense(decay, 0.01, 1);
    ExpectLazyEqualsDense(decay, 0.1, 400);
  }
}

TEST(RowAverageTest, AFirstStepIsAllOfTheAverage) {
  const RowAverage average(0.999);
  const RowAverage::LagFactors factors = average.FactorsOf(Step(0), Step(1));
  EXPECT_EQ(factors.keep, 0.0f);
  EXPECT_EQ(factors.blend, 0.0f);
  // The second counts half.
  EXPECT_NEAR(average.FactorsOf(Step(1), Step(2)).blend, 0.5, 1e-3);
}

TEST(RowAverageTest, WhatRemainsFadesAndIsNeverMoreThanAll) {
  const RowAverage average(0.99);
  EXPECT_EQ(average.Remaining(Step(0), Step(50)), 0.0f) << "never updated";
  EXPECT_EQ(average.Remaining(Step(50), Step(50)), 1.0f);
  EXPECT_EQ(average.Remaining(Step(50), Step(49)), 1.0f) << "not yet";
  float before = 1.0f;
  for (int64_t now = 51; now < 2000; ++now) {
    const float left = average.Remaining(Step(50), Step(now));
    ASSERT_LT(left, before);
    before = left;
  }
  EXPECT_EQ(average.Remaining(Step(1), Step(std::numeric_limits<int32_t>::max())), 0.0f);
}

}  // namespace
}  // namespace dslide
