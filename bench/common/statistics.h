// What a benchmark says of repeated measurements.

#pragma once

#include <vector>

namespace dslide::bench {

// The middle value; of an even number the mean of the two middle ones. 0 when there are none.
double Median(std::vector<double> values);

// The value below which `part` of the values lie, by nearest rank; 0 when there are none. part in
// [0, 1].
double Quantile(std::vector<double> values, double part);

// (largest - smallest) / |median|: how much of a figure the worst luck moves it. 0 for fewer than
// two values; infinity when the median is 0 and the values differ.
double Spread(const std::vector<double>& values);

// When to stop repeating: at `max_repeats`, or as soon as there are `min_repeats` whose spread is
// at most `spread`.
struct RepeatRule {
  int min_repeats = 2;
  int max_repeats = 3;
  double spread = 0.05;

  bool Enough(const std::vector<double>& values) const;
};

}  // namespace dslide::bench
