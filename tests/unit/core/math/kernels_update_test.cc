#include <cmath>
#include <vector>

#include "core/math/kernels.h"
#include "gtest/gtest.h"
#include "tests/unit/core/math/kernel_test.h"

namespace dslide {
namespace {

class UpdateKernelTest : public KernelTest {};
DSLIDE_INSTANTIATE_KERNEL_TEST(UpdateKernelTest);

TEST_P(UpdateKernelTest, AxpyIsWithinTwoRoundings) {
  for (const int64_t n : Lengths()) {
    for (const Values values : AllValues()) {
      GuardedArray<float> x(RandomFloats(n, values, 21));
      GuardedArray<float> y(RandomFloats(n, values, 22));
      const std::vector<float> before = y.ToVector();
      const float alpha = -0.37f;
      Axpy(alpha, x.data(), y.data(), n);
      for (int64_t i = 0; i < n; ++i) {
        const double product = double{alpha} * double{x[i]};
        const double bound = 2 * kU * (std::fabs(product) + std::fabs(before[i])) + kTiny;
        ASSERT_NEAR(y[i], before[i] + product, bound);
      }
    }
  }
}

TEST_P(UpdateKernelTest, AddToIsExactlyRounded) {
  for (const int64_t n : Lengths()) {
    for (const Values values : AllValues()) {
      GuardedArray<float> x(RandomFloats(n, values, 23));
      GuardedArray<float> y(RandomFloats(n, values, 24));
      const std::vector<float> before = y.ToVector();
      AddTo(x.data(), y.data(), n);
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y[i], before[i] + x[i]);
    }
  }
}

TEST_P(UpdateKernelTest, SgdFollowsItsFormula) {
  const float rate = 0.05f;
  const float keep = 0.99f;
  for (const int64_t n : Lengths()) {
    for (const Values values : AllValues()) {
      GuardedArray<float> w(RandomFloats(n, values, 25));
      GuardedArray<float> g(RandomFloats(n, values, 26));
      const std::vector<float> before = w.ToVector();
      SgdUpdate(w.data(), g.data(), n, rate, keep);
      for (int64_t i = 0; i < n; ++i) {
        const double kept = double{keep} * double{before[i]};
        const double change = double{rate} * double{g[i]};
        const double bound = 3 * kU * (std::fabs(kept) + std::fabs(change)) + 4 * kFlushed;
        ASSERT_NEAR(w[i], kept - change, bound);
      }
    }
  }
}

TEST_P(UpdateKernelTest, AdagradFollowsItsFormula) {
  const float rate = 0.05f;
  const float epsilon = 1e-8f;
  const float keep = 0.99f;
  for (const int64_t n : Lengths()) {
    for (const Values values : AllValues()) {
      GuardedArray<float> w(RandomFloats(n, Values::kUnit, 27));
      GuardedArray<float> a(RandomFloats(n, values, 28));
      for (int64_t i = 0; i < n; ++i) a[i] = std::fabs(a[i]);
      GuardedArray<float> g(RandomFloats(n, values, 29));
      const std::vector<float> w0 = w.ToVector();
      const std::vector<float> a0 = a.ToVector();
      AdagradUpdate(w.data(), a.data(), g.data(), n, rate, epsilon, keep);
      for (int64_t i = 0; i < n; ++i) {
        const double sum = double{a0[i]} + double{g[i]} * double{g[i]};
        const double change = double{rate} * g[i] / (std::sqrt(sum) + double{epsilon});
        const double kept = double{keep} * double{w0[i]};
        ASSERT_NEAR(a[i], sum, 2 * kU * sum + 3 * kFlushed);
        // Roundings: square root, sum, quotient, product and difference, and half of a's. A
        // gradient read as 0 weighs at most rate / epsilon.
        ASSERT_NEAR(w[i], kept - change,
                    8 * kU * (std::fabs(kept) + std::fabs(change)) + 2 * kFlushed / epsilon);
      }
    }
  }
}

// Factors of a step in the middle of a training.
constexpr AdamFactors kUsual = {.decay1 = 0.9f,
                                .decay2 = 0.999f,
                                .blend1 = 0.1f,
                                .blend2 = 0.001f,
                                .correction1 = 0.5f,
                                .correction2 = 0.3f,
                                .rate = 0.01f,
                                .epsilon = 1e-8f,
                                .keep = 0.999f};
// The same after a gap that left nothing of the first moment.
constexpr AdamFactors kAfterGap = {.decay1 = 0.0f,
                                   .decay2 = 0.5f,
                                   .blend1 = 0.1f,
                                   .blend2 = 0.001f,
                                   .correction1 = 1.0f,
                                   .correction2 = 1.0f,
                                   .rate = 0.3f,
                                   .epsilon = 1e-4f,
                                   .keep = 1.0f};

void CheckAdam(int64_t n, Values values, const AdamFactors& f) {
  GuardedArray<float> w(RandomFloats(n, Values::kUnit, 31));
  GuardedArray<float> m(RandomFloats(n, values, 32));
  GuardedArray<float> v(RandomFloats(n, values, 33));
  for (int64_t i = 0; i < n; ++i) v[i] = std::fabs(v[i]);
  GuardedArray<float> g(RandomFloats(n, values, 34));
  const std::vector<float> w0 = w.ToVector();
  const std::vector<float> m0 = m.ToVector();
  const std::vector<float> v0 = v.ToVector();
  AdamUpdate(w.data(), m.data(), v.data(), g.data(), n, f);
  for (int64_t i = 0; i < n; ++i) {
    const double old_first = double{f.decay1} * double{m0[i]};
    const double new_first = double{f.blend1} * double{g[i]};
    const double first = old_first + new_first;
    const double first_error =
        3 * kU * (std::fabs(old_first) + std::fabs(new_first)) + 4 * kFlushed;
    const double second = double{f.decay2} * double{v0[i]} + double{f.blend2} * g[i] * g[i];
    ASSERT_NEAR(m[i], first, first_error);
    ASSERT_NEAR(v[i], second, 4 * kU * second + 4 * kFlushed);
    const double scale = std::sqrt(second / f.correction2) + double{f.epsilon};
    const double change = double{f.rate} * (first / f.correction1) / scale;
    const double kept = double{f.keep} * double{w0[i]};
    // The moment's own error reaches the weight; the formula adds about eight roundings. A second
    // moment read as 0 is far below epsilon squared.
    const double bound = 10 * kU * (std::fabs(kept) + std::fabs(change)) +
                         f.rate / f.correction1 * first_error / scale + 4 * kFlushed;
    ASSERT_NEAR(w[i], kept - change, bound) << "n " << n << " i " << i;
  }
}

TEST_P(UpdateKernelTest, AdamFollowsItsFormula) {
  for (const int64_t n : Lengths()) {
    for (const Values values : AllValues()) {
      CheckAdam(n, values, kUsual);
      CheckAdam(n, values, kAfterGap);
    }
  }
}

TEST_P(UpdateKernelTest, AdamLeavesAnUntouchedParameterInPlace) {
  std::vector<float> w = RandomFloats(128, Values::kUnit, 35);
  const std::vector<float> before = w;
  std::vector<float> m(128);
  std::vector<float> v(128);
  const std::vector<float> g(128);
  AdamFactors factors = kUsual;
  factors.keep = 1.0f;
  AdamUpdate(w.data(), m.data(), v.data(), g.data(), 128, factors);
  EXPECT_TRUE(SameBits(w, before));
}

// Squares of gradients of 1e-21 are subnormal: updates with them would take twenty times as long.
TEST_P(UpdateKernelTest, SubnormalStateBecomesZeroAndTheModeEnds) {
  const std::vector<float> g(19, 1e-21f);
  std::vector<float> w(19, 1.0f);
  std::vector<float> m(19);
  std::vector<float> v(19, 1e-38f);
  AdamUpdate(w.data(), m.data(), v.data(), g.data(), 19, kUsual);
  EXPECT_EQ(v, std::vector<float>(19, 0.0f));
  std::vector<float> a(19);
  AdagradUpdate(w.data(), a.data(), g.data(), 19, 0.1f, 1e-8f, 1.0f);
  EXPECT_EQ(a, std::vector<float>(19, 0.0f));
  volatile float tiny = 1e-38f;
  EXPECT_NE(tiny * 0.5f, 0.0f) << "the caller's arithmetic keeps its subnormal numbers";
}

}  // namespace
}  // namespace dslide
