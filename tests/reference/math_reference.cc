#include "tests/reference/math_reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace dslide::reference {

DotResult Dot(absl::Span<const float> a, absl::Span<const float> b) {
  DotResult result;
  for (size_t i = 0; i < a.size(); ++i) {
    const double product = double{a[i]} * double{b[i]};
    result.sum += product;
    result.absolute_sum += std::fabs(product);
  }
  return result;
}

RowGradientsResult RowGradients(absl::Span<const float> weights, absl::Span<const float> hidden,
                                int64_t stride, absl::Span<const uint32_t> samples,
                                absl::Span<const float> g, absl::Span<const float> hidden_grad) {
  const size_t dim = weights.size();
  RowGradientsResult result;
  result.row_grad.assign(dim, 0.0);
  result.row_grad_magnitude.assign(dim, 0.0);
  result.hidden_grad.assign(hidden_grad.begin(), hidden_grad.end());
  for (const float value : hidden_grad) result.hidden_grad_magnitude.push_back(std::fabs(value));
  for (size_t k = 0; k < samples.size(); ++k) {
    result.bias_grad += g[k];
    for (size_t i = 0; i < dim; ++i) {
      const size_t at = samples[k] * static_cast<size_t>(stride) + i;
      const double to_row = double{g[k]} * double{hidden[at]};
      const double to_hidden = double{g[k]} * double{weights[i]};
      result.row_grad[i] += to_row;
      result.row_grad_magnitude[i] += std::fabs(to_row);
      result.hidden_grad[at] += to_hidden;
      result.hidden_grad_magnitude[at] += std::fabs(to_hidden);
    }
  }
  return result;
}

double ClampedExp(float x) { return std::exp(std::min(double{x}, 88.0)); }

BFloat16 ToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const BFloat16 toward_zero{static_cast<uint16_t>(bits >> 16)};
  if (std::isnan(value)) return BFloat16{static_cast<uint16_t>((bits >> 16) | 0x40u)};
  if (std::isinf(value) || ToFloat(toward_zero) == value) return toward_zero;
  const BFloat16 away{static_cast<uint16_t>(toward_zero.bits + 1)};
  // Beyond the largest finite value the next step counts as 2^128, as IEEE 754 rounds.
  const double away_value =
      std::isinf(ToFloat(away)) ? std::copysign(0x1.0p128, double{value}) : double{ToFloat(away)};
  const double below = std::fabs(double{value} - double{ToFloat(toward_zero)});
  const double above = std::fabs(away_value - double{value});
  if (below != above) return below < above ? toward_zero : away;
  return (toward_zero.bits & 1) == 0 ? toward_zero : away;
}

uint16_t RoundStochastically(float value, uint32_t random) {
  if (std::isnan(value) || std::isinf(value)) return reference::ToBFloat16(value).bits;
  const uint32_t magnitude = std::bit_cast<uint32_t>(std::fabs(value));
  const uint32_t lower = magnitude / 65536;
  const double below = std::bit_cast<float>(lower * 65536);
  const double unit = double{std::bit_cast<float>(lower * 65536 + 1)} - below;
  const double part = (std::fabs(double{value}) - below) / unit;  // exact: 16 bits
  uint32_t result = part + random >= 65536.0 ? lower + 1 : lower;
  if (result == 0x7f80) result = 0x7f7f;
  return static_cast<uint16_t>(result + (std::signbit(value) ? 0x8000 : 0));
}

uint32_t RoundingBits(uint64_t a, uint64_t b, int64_t i) {
  constexpr uint64_t kWord = uint64_t{1} << 32;
  const auto index = static_cast<uint64_t>(i / 32 * 16 + i % 16);
  uint64_t x = (a + index * 2654435769u) % kWord;
  x ^= x / 65536;
  x = x * 2146121005u % kWord;
  x ^= x / 32768;
  x ^= b;
  x = x * 2221713035u % kWord;
  x ^= x / 65536;
  return static_cast<uint32_t>(i / 16 % 2 == 0 ? x % 65536 : x / 65536);
}

std::vector<double> Hadamard(absl::Span<const float> x) {
  std::vector<double> y(x.size(), 0.0);
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < x.size(); ++j) {
      const bool negative = std::popcount(i & j) % 2 == 1;
      y[i] += negative ? -double{x[j]} : double{x[j]};
    }
  }
  return y;
}

std::vector<float> HadamardButterflies(absl::Span<const float> x) {
  std::vector<float> y(x.begin(), x.end());
  for (size_t distance = 1; distance < y.size(); distance *= 2) {
    for (size_t i = 0; i < y.size(); ++i) {
      if ((i & distance) != 0) continue;
      const float a = y[i];
      const float b = y[i + distance];
      y[i] = a + b;
      y[i + distance] = a - b;
    }
  }
  return y;
}

}  // namespace dslide::reference
