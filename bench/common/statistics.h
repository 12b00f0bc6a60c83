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

// A median and how sure it is.
struct MedianEstimate {
  double median = 0;
  // Of as many new values the true median would lie in [low, high] 95 times of 100, whatever their
  // distribution, as long as they do not depend on each other. Fewer than six values cannot be as
  // sure: then it is their range.
  double low = 0;
  double high = 0;

  // The farther end's distance from the median, relative to it; 0 when that is 0.
  double Uncertainty() const;
};

// By order statistics: as many values are left out on each side as a fair coin would show heads at
// most once in 40 times (the sign test, inverted). Zeros when there are none.
MedianEstimate EstimateMedian(std::vector<double> values);

// When to stop repeating: at `max_repeats`, or as soon as there are `min_repeats` whose spread is
// at most `spread`.
struct RepeatRule {
  int min_repeats = 2;
  int max_repeats = 3;
  double spread = 0.05;

  bool Enough(const std::vector<double>& values) const;
};

}  // namespace dslide::bench
