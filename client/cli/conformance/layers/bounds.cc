#include "client/cli/conformance/layers/bounds.h"

#include <algorithm>
#include <cmath>

#include "core/base/bfloat16.h"

namespace dslide::cli {
namespace {

double RoundedToBf16(double value) { return ToFloat(ToBFloat16(static_cast<float>(value))); }

Interval Times(const Interval& a, const Interval& b) {
  const auto [low, high] =
      std::minmax({a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
  return {low, high};
}

double Magnitude(const Interval& a) { return std::max(std::abs(a.low), std::abs(a.high)); }

// A sum in f32, in any order.
class SumInF32 {
 public:
  void Add(const Interval& term) {
    low_ += term.low;
    high_ += term.high;
    magnitude_ += Magnitude(term);
    ++terms_;
  }

  // `roundings`: of each term before it is added. A sum is an f32: its bounds may be, too.
  Interval Get(int64_t roundings) const {
    const double error =
        static_cast<double>(std::max<int64_t>(0, terms_ - 1) + roundings) * kRounding * magnitude_;
    return {static_cast<float>(low_ - error), static_cast<float>(high_ + error)};
  }

 private:
  double low_ = 0;
  double high_ = 0;
  double magnitude_ = 0;
  int64_t terms_ = 0;
};

}  // namespace

Bounds Exactly(absl::Span<const float> numbers) {
  Bounds bounds;
  for (const float number : numbers) bounds.push_back({number, number});
  return bounds;
}

Bounds SumBounds(absl::Span<const MatrixReply> parts) {
  Bounds sums;
  size_t size = parts.front().data.size();
  for (const MatrixReply& part : parts) size = std::min(size, part.data.size());
  for (size_t i = 0; i < size; ++i) {
    SumInF32 sum;
    for (const MatrixReply& part : parts) sum.Add({part.data[i], part.data[i]});
    sums.push_back(sum.Get(0));
  }
  return sums;
}

void RoundBounds(ActivationType type, Bounds& bounds) {
  if (type != ActivationType::kBf16) return;
  for (Interval& x : bounds) x = {RoundedToBf16(x.low), RoundedToBf16(x.high)};
}

void MayRoundBounds(ActivationType type, Bounds& bounds) {
  Bounds rounded = bounds;
  RoundBounds(type, rounded);
  for (size_t i = 0; i < bounds.size(); ++i) {
    bounds[i] = {std::min(bounds[i].low, rounded[i].low),
                 std::max(bounds[i].high, rounded[i].high)};
  }
}

void ActivateBounds(const HiddenDropout& dropout, int64_t layer, int64_t width, Bounds& x) {
  for (Interval& one : x) one = {std::max(one.low, 0.0), std::max(one.high, 0.0)};
  if (dropout.probability <= 0) return;
  // What becomes of a 1 is the factor of the unit.
  std::vector<float> factors(x.size(), 1.0f);
  Activate(KeptUnits(dropout, layer, width, Parallelism{1}), dropout.probability, width,
           /*round=*/false, Parallelism{1}, factors);
  for (size_t i = 0; i < x.size(); ++i) {
    // A quotient instead of a product is off by two half units.
    x[i] = {x[i].low * factors[i] * (1 - 3 * kRounding),
            x[i].high * factors[i] * (1 + 3 * kRounding)};
  }
}

void MaskBounds(const Bounds& activated, double probability, Bounds& gradient) {
  const float scale = 1.0f / (1.0f - static_cast<float>(probability));
  for (size_t i = 0; i < std::min(activated.size(), gradient.size()); ++i) {
    Interval& g = gradient[i];
    if (activated[i].high <= 0) {
      g = {0, 0};
      continue;
    }
    if (probability > 0) {
      g = {g.low * scale, g.high * scale};
      const double error = 3 * kRounding * Magnitude(g);
      g = {g.low - error, g.high + error};
    }
    if (activated[i].low <= 0) g = {std::min(g.low, 0.0), std::max(g.high, 0.0)};
  }
}

Bounds DenseBounds(const DenseLayer& layer, const Bounds& x) {
  Bounds y;
  const auto in = static_cast<size_t>(layer.in);
  for (size_t first = 0; first < x.size(); first += in) {
    for (size_t unit = 0; unit < static_cast<size_t>(layer.out); ++unit) {
      SumInF32 sum;
      sum.Add({layer.biases[unit], layer.biases[unit]});
      for (size_t i = 0; i < in; ++i) {
        const float weight = layer.weights[unit * in + i];
        sum.Add(Times({weight, weight}, x[first + i]));
      }
      y.push_back(sum.Get(1));
    }
  }
  return y;
}

DenseGradientBounds GradientBounds(const DenseLayer& layer, const Bounds& x, const Bounds& dy) {
  DenseGradientBounds gradients;
  const auto in = static_cast<size_t>(layer.in);
  const auto out = static_cast<size_t>(layer.out);
  for (size_t unit = 0; unit < out; ++unit) {
    SumInF32 bias;
    for (size_t at = unit; at < dy.size(); at += out) bias.Add(dy[at]);
    gradients.biases.push_back(bias.Get(0));
    for (size_t i = 0; i < in; ++i) {
      SumInF32 sum;
      for (size_t sample = 0; (sample + 1) * out <= dy.size(); ++sample) {
        sum.Add(Times(dy[sample * out + unit], x[sample * in + i]));
      }
      gradients.weights.push_back(sum.Get(1));
    }
  }
  return gradients;
}

Bounds BelowBounds(const DenseLayer& layer, const Bounds& dy) {
  Bounds dx;
  const auto in = static_cast<size_t>(layer.in);
  const auto out = static_cast<size_t>(layer.out);
  for (size_t first = 0; first < dy.size(); first += out) {
    for (size_t i = 0; i < in; ++i) {
      SumInF32 sum;
      for (size_t unit = 0; unit < out; ++unit) {
        const float weight = layer.weights[unit * in + i];
        sum.Add(Times({weight, weight}, dy[first + unit]));
      }
      dx.push_back(sum.Get(1));
    }
  }
  return dx;
}

}  // namespace dslide::cli
