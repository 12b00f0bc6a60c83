#include "bench/common/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace dslide::bench {

double Median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2.0;
}

double Quantile(std::vector<double> values, double part) {
  if (values.empty()) return 0.0;
  const double rank = std::ceil(part * static_cast<double>(values.size()));
  const double clamped = std::clamp(rank, 1.0, static_cast<double>(values.size()));
  const auto at = static_cast<std::ptrdiff_t>(clamped) - 1;
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<size_t>(at)];
}

double Spread(const std::vector<double>& values) {
  if (values.size() < 2) return 0.0;
  const auto [smallest, largest] = std::minmax_element(values.begin(), values.end());
  if (*smallest == *largest) return 0.0;
  const double median = std::abs(Median(values));
  if (median == 0.0) return std::numeric_limits<double>::infinity();
  return (*largest - *smallest) / median;
}

double MedianEstimate::Uncertainty() const {
  return median == 0.0 ? 0.0 : std::max(high - median, median - low) / std::abs(median);
}

MedianEstimate EstimateMedian(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  size_t left_out = 0;
  double tail = 0.0;  // P(at most `heads` heads of `count` coins)
  for (size_t heads = 0;; ++heads) {
    const auto k = static_cast<double>(heads);
    tail += std::exp(std::lgamma(count + 1) - std::lgamma(k + 1) - std::lgamma(count - k + 1) -
                     count * std::log(2.0));
    if (tail > 0.025) break;
    left_out = heads;
  }
  return {.median = Median(values),
          .low = values[left_out],
          .high = values[values.size() - 1 - left_out]};
}

bool RepeatRule::Enough(const std::vector<double>& values) const {
  const auto count = static_cast<int>(values.size());
  if (count >= max_repeats) return true;
  return count >= min_repeats && Spread(values) <= spread;
}

}  // namespace dslide::bench
