#include "bench/common/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace dslide::bench {

double Quantile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  const double rank = std::ceil(part * static_cast<double>(values.size()));
  const auto at = static_cast<size_t>(std::clamp(rank, 1.0, double(values.size()))) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

double Spread(const std::vector<double>& values) {
  const double middle = Median(values);
  if (values.size() < 2 || middle == 0) return 0;
  return (Quantile(values, 0.75) - Quantile(values, 0.25)) / std::abs(middle);
}

}  // namespace dslide::bench
