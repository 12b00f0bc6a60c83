#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/engine/math/kernels.h"
#include "gtest/gtest.h"
#include "tests/unit/core/engine/math/kernel_test.h"

namespace dslide {
namespace {

constexpr float kNoBound = std::numeric_limits<float>::max();

VectorUpdate InPlace(float* x) { return {x, x}; }
VectorUpdate InPlace(GuardedArray<float>& x) { return InPlace(x.data()); }
VectorUpdate InPlace(std::vector<float>& x) { return InPlace(x.data()); }

const char* UpdatedBytes(const std::vector<float>& x) {
  return reinterpret_cast<const char*>(x.data());
}
const char* UpdatedBytes(GuardedArray<float>& x) { return reinterpret_cast<const char*>(x.data()); }

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

TEST_P(UpdateKernelTest, AddWithinAddsAsAddToDoes) {
  for (const int64_t n : Lengths()) {
    for (const Values values : AllValues()) {
      GuardedArray<float> x(RandomFloats(n, values, 23));
      GuardedArray<float> y(RandomFloats(n, values, 24));
      std::vector<float> expected = y.ToVector();
      AddTo(x.data(), expected.data(), n);
      ASSERT_TRUE(AddWithin(UpdatedBytes(x), y.data(), n, kNoBound));
      ASSERT_EQ(y.ToVector(), expected);
    }
  }
}

TEST_P(UpdateKernelTest, AddWithinReadsFloatsThatStartAtAnyByte) {
  for (const int64_t n : Lengths()) {
    const std::vector<float> x = RandomFloats(n, Values::kWide, 25);
    const auto bytes = static_cast<int64_t>(x.size() * sizeof(float));
    for (const int64_t after : {1, 2, 3, 5}) {  // bytes between the last float and the guard page
      GuardedArray<char> shifted(bytes + after);
      std::copy_n(UpdatedBytes(x), bytes, shifted.data());
      std::vector<float> y = RandomFloats(n, Values::kWide, 26);
      std::vector<float> expected = y;
      AddTo(x.data(), expected.data(), n);
      ASSERT_TRUE(AddWithin(shifted.data(), y.data(), n, kNoBound));
      ASSERT_EQ(y, expected) << "n " << n << ", " << after << " bytes after it";
    }
  }
}

TEST_P(UpdateKernelTest, AddWithinChangesNothingWhenOneSumIsBeyondTheBound) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t n : Lengths()) {
    GuardedArray<float> x(std::vector<float>(n, 0.25f));
    GuardedArray<float> y(std::vector<float>(n, 0.75f));
    for (int64_t at = 0; at < n; ++at) {
      for (const float bad : {0.2500001f, -1.7500001f, kInfinity, kNan}) {
        x[at] = bad;
        ASSERT_FALSE(AddWithin(UpdatedBytes(x), y.data(), n, 1.0f)) << "n " << n << " at " << at;
        ASSERT_EQ(y.ToVector(), std::vector<float>(n, 0.75f)) << "n " << n << " at " << at;
      }
      x[at] = 0.25f;
    }
    const bool has_sums = n > 0;
    ASSERT_FALSE(AddWithin(UpdatedBytes(x), y.data(), n, kNan))
        << "NaN bounds nothing, as AllWithin()";
    ASSERT_TRUE(AddWithin(UpdatedBytes(x), y.data(), n, 1.0f))
        << "a sum may be as large as the bound";
    ASSERT_EQ(y.ToVector(), std::vector<float>(n, 1.0f));
    std::vector<float> largest(n, kNoBound);
    ASSERT_EQ(AddWithin(UpdatedBytes(largest), largest.data(), n, kInfinity), !has_sums)
        << "infinity is within no bound";
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
      EXPECT_TRUE(SgdUpdate(InPlace(w), g.data(), n, rate, keep, kNoBound));
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
      EXPECT_TRUE(
          AdagradUpdate(InPlace(w), InPlace(a), g.data(), n, rate, epsilon, keep, kNoBound));
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
                                .rate = 0.02f,
                                .inverse2 = 3.25f,
                                .epsilon = 1e-8f,
                                .keep = 0.999f};
// The same after a gap that left nothing of the first moment.
constexpr AdamFactors kAfterGap = {.decay1 = 0.0f,
                                   .decay2 = 0.5f,
                                   .blend1 = 0.1f,
                                   .blend2 = 0.001f,
                                   .rate = 0.3f,
                                   .inverse2 = 1.0f,
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
  EXPECT_TRUE(AdamUpdate(InPlace(w), InPlace(m), InPlace(v), g.data(), n, f, kNoBound));
  for (int64_t i = 0; i < n; ++i) {
    const double old_first = double{f.decay1} * double{m0[i]};
    const double new_first = double{f.blend1} * double{g[i]};
    const double first = old_first + new_first;
    const double first_error =
        3 * kU * (std::fabs(old_first) + std::fabs(new_first)) + 4 * kFlushed;
    const double second = double{f.decay2} * double{v0[i]} + double{f.blend2} * g[i] * g[i];
    ASSERT_NEAR(m[i], first, first_error);
    ASSERT_NEAR(v[i], second, 4 * kU * second + 4 * kFlushed);
    const double scale = std::sqrt(second * f.inverse2) + double{f.epsilon};
    const double change = double{f.rate} * first / scale;
    const double kept = double{f.keep} * double{w0[i]};
    // The moment's own error reaches the weight; the formula adds about eight roundings. A second
    // moment read as 0 is far below epsilon squared.
    const double bound = 10 * kU * (std::fabs(kept) + std::fabs(change)) +
                         f.rate * first_error / scale + 4 * kFlushed;
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

// The vectors of one update, apart from where they go.
struct Apart {
  explicit Apart(int64_t n) : from(n, 0.25f), to(n, 7.0f) {}
  VectorUpdate Update() { return {from.data(), to.data()}; }
  std::vector<float> from, to;
};

// Runs all three optimizers with one bad number and expects each to say so, at any place.
void ExpectRefused(int64_t n, int64_t place, float gradient, float weight, float bound) {
  std::vector<float> g(n, 0.5f);
  g[place] = gradient;
  for (int kind = 0; kind < 3; ++kind) {
    Apart w(n);
    Apart m(n);
    Apart v(n);
    w.from[place] = weight;
    const bool good =
        kind == 0   ? SgdUpdate(w.Update(), g.data(), n, 0.1f, 1.0f, bound)
        : kind == 1 ? AdagradUpdate(w.Update(), v.Update(), g.data(), n, 0.1f, 1e-8f, 1.0f, bound)
                    : AdamUpdate(w.Update(), m.Update(), v.Update(), g.data(), n, kUsual, bound);
    EXPECT_FALSE(good) << "kind " << kind << " n " << n << " place " << place;
    EXPECT_EQ(w.from[0], place == 0 ? weight : 0.25f) << "what is read is not written";
    EXPECT_EQ(std::count(v.from.begin(), v.from.end(), 0.25f), n);
  }
}

TEST_P(UpdateKernelTest, EveryBadNumberIsSeenAtEveryPlace) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const int64_t n : {1, 5, 16, 37}) {
    for (int64_t place = 0; place < n; ++place) {
      ExpectRefused(n, place, kNan, 0.0f, kNoBound);
      ExpectRefused(n, place, -kInfinity, 0.0f, kNoBound);
      ExpectRefused(n, place, kInfinity, 0.0f, kInfinity);
      ExpectRefused(n, place, 1.5f, 0.0f, 1.25f);
      ExpectRefused(n, place, 0.0f, -1.5f, 1.0f);
      ExpectRefused(n, place, 0.0f, 0.0f, kNan);
    }
  }
  // Its square is infinite, and an infinite second moment makes a change of 0.
  std::vector<float> g(3, 1e25f);
  Apart w(3);
  Apart m(3);
  Apart v(3);
  EXPECT_FALSE(AdamUpdate(w.Update(), m.Update(), v.Update(), g.data(), 3, kUsual, kNoBound));
  EXPECT_FALSE(AdagradUpdate(w.Update(), v.Update(), g.data(), 3, 0.1f, 1e-8f, 1.0f, kNoBound));
}

TEST_P(UpdateKernelTest, AverageLagUpdateIsWithinFourRoundings) {
  const float keep = 0.83f;
  const float blend = 0.97f;
  for (const int64_t n : Lengths()) {
    for (const Values values : AllValues()) {
      GuardedArray<float> before(RandomFloats(n, values, 36));
      GuardedArray<float> after(RandomFloats(n, values, 37));
      GuardedArray<float> lag(RandomFloats(n, values, 38));
      const std::vector<float> old = lag.ToVector();
      AverageLagUpdate(InPlace(lag), before.data(), after.data(), n, keep, blend);
      for (int64_t i = 0; i < n; ++i) {
        const double move = double{before[i]} - double{after[i]};
        const double kept = double{keep} * double{old[i]};
        // Subnormal operands and results, six at most, are 0.
        const double bound =
            4 * kU * (std::fabs(kept) + std::fabs(before[i]) + std::fabs(after[i])) +
            6 * 0x1.0p-126;
        ASSERT_NEAR(lag[i], kept + double{blend} * move, bound);
      }
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
  AdamUpdate(InPlace(w), InPlace(m), InPlace(v), g.data(), 128, factors, kNoBound);
  EXPECT_TRUE(SameBits(w, before));
}

// Squares of gradients of 1e-21 are subnormal: updates with them would take twenty times as long.
TEST_P(UpdateKernelTest, SubnormalStateBecomesZeroAndTheModeEnds) {
  const std::vector<float> g(19, 1e-21f);
  std::vector<float> w(19, 1.0f);
  std::vector<float> m(19);
  std::vector<float> v(19, 1e-38f);
  AdamUpdate(InPlace(w), InPlace(m), InPlace(v), g.data(), 19, kUsual, kNoBound);
  EXPECT_EQ(v, std::vector<float>(19, 0.0f));
  std::vector<float> a(19);
  AdagradUpdate(InPlace(w), InPlace(a), g.data(), 19, 0.1f, 1e-8f, 1.0f, kNoBound);
  EXPECT_EQ(a, std::vector<float>(19, 0.0f));
  volatile float tiny = 1e-38f;
  EXPECT_NE(tiny * 0.5f, 0.0f) << "the caller's arithmetic keeps its subnormal numbers";
}

}  // namespace
}  // namespace dslide
