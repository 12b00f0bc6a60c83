// Middle and spread of repeated measurements.

#pragma once

#include <utility>
#include <vector>

namespace dslide::bench {

// The value below which `part` of the values lie, by nearest rank; 0 for none. part in [0, 1].
double Quantile(std::vector<double> values, double part);
inline double Median(std::vector<double> values) { return Quantile(std::move(values), 0.5); }
// Distance of the quartiles over the median: how far repetitions disagree. 0 for less than two.
double Spread(const std::vector<double>& values);

}  // namespace dslide::bench
