#include <cmath>
#include <cstdint>
#include <vector>

#include "core/engine/math/kernels.h"
#include "gtest/gtest.h"
#include "tests/reference/math_reference.h"
#include "tests/unit/core/engine/math/kernel_test.h"

namespace dslide {
namespace {

constexpr int64_t kBatch = 13;

// A row, a batch and some samples of it. Columns beyond dim hold NaN, which must not be used.
struct RowCase {
  RowCase(int64_t dim, int64_t padding, int64_t count, Values values)
      : dim(dim),
        stride(dim + padding),
        weights(RandomFloats(dim, values, 11)),
        hidden(Padded(12, values)),
        g(RandomFloats(count, Values::kUnit, 13)) {
    CounterRng rng(static_cast<uint64_t>(count));
    uint32_t sample = 0;
    for (int64_t k = 0; k < count; ++k) {
      samples.push_back(sample % kBatch);
      sample += 1 + static_cast<uint32_t>(rng.NextBelow(3));
    }
  }

  // [kBatch, stride] less the padding of the last row, so that the last row ends at the guard page.
  std::vector<float> Padded(uint64_t seed, Values values) const {
    std::vector<float> out = RandomFloats(kBatch * stride - (stride - dim), values, seed);
    for (size_t i = 0; i < out.size(); ++i) {
      if (static_cast<int64_t>(i) % stride >= dim) out[i] = std::nanf("");
    }
    return out;
  }

  absl::Span<const float> SampleRow(uint32_t sample) const {
    return hidden.span().subspan(sample * static_cast<size_t>(stride), static_cast<size_t>(dim));
  }

  int64_t dim;
  int64_t stride;
  GuardedArray<float> weights;
  GuardedArray<float> hidden;
  GuardedArray<float> g;
  std::vector<uint32_t> samples;
};

class RowKernelTest : public KernelTest {};
DSLIDE_INSTANTIATE_KERNEL_TEST(RowKernelTest);

TEST_P(RowKernelTest, LogitsAreWithinTheBoundOfTheReference) {
  for (const int64_t dim : Lengths()) {
    for (const int64_t padding : {0, 3}) {
      for (const int64_t count : {0, 1, 2, 3, 4, 5, 8, 15, 31}) {
        for (const Values values : AllValues()) {
          RowCase c(dim, padding, count, values);
          GuardedArray<float> logits(count);
          const float bias = 0.25f;
          RowLogits(c.weights.data(), bias, c.hidden.data(), dim, c.stride, c.samples,
                    logits.data());
          for (int64_t k = 0; k < count; ++k) {
            const auto dot = reference::Dot(c.weights.span(), c.SampleRow(c.samples[k]));
            const double expected = bias + dot.sum;
            // Dot's bound and the rounding of the last addition.
            const double bound =
                2 * dim * kU * dot.absolute_sum + 2 * kU * std::fabs(expected) + dim * kTiny;
            ASSERT_NEAR(logits[k], expected, bound) << "dim " << dim << " sample " << k;
          }
        }
      }
    }
  }
}

TEST_P(RowKernelTest, ALogitDoesNotDependOnTheOtherSamples) {
  for (const int64_t dim : Lengths()) {
    RowCase c(dim, 5, 23, Values::kWide);
    std::vector<float> logits(23);
    RowLogits(c.weights.data(), 0.5f, c.hidden.data(), dim, c.stride, c.samples, logits.data());
    for (size_t k = 0; k < c.samples.size(); ++k) {
      EXPECT_EQ(logits[k], 0.5f + Dot(c.weights.data(), c.SampleRow(c.samples[k]).data(), dim));
    }
  }
}

void CheckGradients(RowCase& c, Values values) {
  const auto count = static_cast<int64_t>(c.samples.size());
  GuardedArray<float> row_grad(c.dim);
  GuardedArray<float> hidden_grad(c.Padded(14, values));
  const auto expected = reference::RowGradients(c.weights.span(), c.hidden.span(), c.stride,
                                                c.samples, c.g.span(), hidden_grad.span());
  const float bias_grad = RowGradients(c.weights.data(), c.hidden.data(), c.dim, c.stride,
                                       c.samples, c.g.data(), row_grad.data(), hidden_grad.data());
  // `count` products and additions, each with an error of at most u of the terms so far.
  const double units = 2 * (count + 1) * kU;
  EXPECT_NEAR(bias_grad, expected.bias_grad, units * count);
  for (int64_t i = 0; i < c.dim; ++i) {
    ASSERT_NEAR(row_grad[i], expected.row_grad[i],
                units * expected.row_grad_magnitude[i] + 2 * count * kFlushed);
  }
  const std::vector<float> after = hidden_grad.ToVector();
  for (size_t i = 0; i < after.size(); ++i) {
    if (static_cast<int64_t>(i) % c.stride >= c.dim) {
      ASSERT_TRUE(std::isnan(after[i])) << "wrote beyond dim";
    } else {
      ASSERT_NEAR(after[i], expected.hidden_grad[i],
                  units * expected.hidden_grad_magnitude[i] + 2 * (count + 1) * kFlushed);
    }
  }
}

TEST_P(RowKernelTest, GradientsAreWithinTheBoundOfTheReference) {
  for (const int64_t dim : Lengths()) {
    for (const int64_t padding : {0, 3}) {
      for (const int64_t count : {0, 1, 2, 5, 18}) {
        for (const Values values : AllValues()) {
          SCOPED_TRACE(testing::Message() << "dim " << dim << " count " << count);
          RowCase c(dim, padding, count, values);
          CheckGradients(c, values);
        }
      }
    }
  }
}

TEST_P(RowKernelTest, ASampleNamedTwiceCountsTwice) {
  RowCase c(128, 0, 4, Values::kUnit);
  c.samples = {3, 3, 3, 0};
  CheckGradients(c, Values::kUnit);
}

TEST_P(RowKernelTest, RowsWithoutSamplesGetAZeroGradient) {
  for (const int64_t dim : {1, 16, 128, 131}) {
    RowCase c(dim, 0, 0, Values::kUnit);
    std::vector<float> row_grad(dim, 7.0f);
    EXPECT_EQ(RowGradients(c.weights.data(), c.hidden.data(), dim, c.stride, {}, nullptr,
                           row_grad.data(), nullptr),
              0.0f);
    EXPECT_EQ(row_grad, std::vector<float>(dim, 0.0f));
  }
}

TEST_P(RowKernelTest, GradientsHaveTheSameBitsAtEveryAddress) {
  for (const int64_t dim : {5, 64, 128, 131}) {
    RowCase c(dim, 0, 9, Values::kWide);
    std::vector<float> expected_row(dim);
    std::vector<float> expected_hidden(kBatch * dim);
    RowGradients(c.weights.data(), c.hidden.data(), dim, dim, c.samples, c.g.data(),
                 expected_row.data(), expected_hidden.data());
    for (int64_t shift = 1; shift < 17; ++shift) {
      std::vector<float> weights(dim + shift);
      std::copy_n(c.weights.data(), dim, weights.begin() + shift);
      std::vector<float> row(dim + shift);
      std::vector<float> hidden(kBatch * dim + shift);
      RowGradients(weights.data() + shift, c.hidden.data(), dim, dim, c.samples, c.g.data(),
                   row.data() + shift, hidden.data() + shift);
      EXPECT_TRUE(SameBits({row.begin() + shift, row.end()}, expected_row));
      EXPECT_TRUE(SameBits({hidden.begin() + shift, hidden.end()}, expected_hidden));
    }
  }
}

}  // namespace
}  // namespace dslide
