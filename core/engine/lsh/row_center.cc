#include "core/engine/lsh/row_center.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/engine/math/kernels.h"

namespace dslide {
namespace {

// Rows asked for ahead of being measured: they are too far apart for the processor to guess.
constexpr int64_t kMeasuredAhead = 8;

// The rows that are measured, evenly spread over all of them.
struct MeasuredRows {
  explicit MeasuredRows(const HashedRows& all)
      : rows(all), count(std::min(all.num_rows(), RowCenter::kMeasuredRows)) {}

  // Asks for the row that comes kMeasuredAhead after the i-th, if there is one.
  void PrefetchAfter(int64_t i) const {
    if (i + kMeasuredAhead < count) rows.Prefetch(At(i + kMeasuredAhead));
  }

  LocalRow At(int64_t i) const {
    return LocalRow(static_cast<uint32_t>(i * rows.num_rows() / count));
  }

  const HashedRows& rows;
  const int64_t count;
};

// [dim + 1] means of the rows and the biases, summed in double in a fixed number of partitions.
std::vector<float> MeanRow(const MeasuredRows& measured, Parallelism parallelism) {
  const HashedRows& rows = measured.rows;
  const int64_t dim = rows.dim();
  std::vector<std::vector<double>> sums(kFixedPartitions);
  ParallelFor(parallelism, kFixedPartitions, /*grain=*/1, [&](int64_t partition, int) {
    std::vector<double>& sum = sums[partition];
    sum.assign(dim + 1, 0.0);
    std::vector<float> scratch(RowScratchFloats(dim));
    const auto [begin, end] = PartitionRange(measured.count, kFixedPartitions, partition);
    for (int64_t i = begin; i < end; ++i) {
      measured.PrefetchAfter(i);
      const LocalRow row = measured.At(i);
      AddToDoubles(rows.ReadWeights(row, scratch.data()), sum.data(), dim);
      sum[dim] += static_cast<double>(rows.Bias(row));
    }
  });
  std::vector<float> mean(dim + 1, 0.0f);
  if (measured.count == 0) return mean;
  for (int64_t i = 0; i <= dim; ++i) {
    double total = 0.0;
    for (const std::vector<double>& sum : sums) total += sum[i];
    mean[i] = static_cast<float>(total / static_cast<double>(measured.count));
  }
  return mean;
}

// Entry ceil(quantile * count) - 1 of the sorted values; 0 when there are none. Reorders `values`.
float Quantile(std::vector<float>& values, double quantile) {
  if (values.empty()) return 0.0f;
  const auto count = static_cast<int64_t>(values.size());
  const int64_t wanted = static_cast<int64_t>(std::ceil(quantile * static_cast<double>(count))) - 1;
  const int64_t at = std::clamp<int64_t>(wanted, 0, count - 1);
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[at];
}

}  // namespace

RowCenter RowCenter::Measure(const HashedRows& rows, const HashSpec& spec,
                             Parallelism parallelism) {
  const MeasuredRows measured(rows);
  RowCenter center;
  center.mean_ =
      spec.center ? MeanRow(measured, parallelism) : std::vector<float>(rows.dim() + 1, 0.0f);
  if (!spec.norm_coordinate) return center;
  std::vector<float> squares(measured.count);
  // For each thread a widened row and a centred one.
  const int64_t row_floats = RowScratchFloats(rows.dim());
  std::vector<float> scratch(std::max(1, parallelism.threads) * 2 * row_floats);
  ParallelFor(parallelism, measured.count, /*grain=*/256, [&](int64_t i, int thread) {
    measured.PrefetchAfter(i);
    const LocalRow row = measured.At(i);
    float* const widened = &scratch[thread * 2 * row_floats];
    const float square =
        center.Subtract(rows.ReadWeights(row, widened), rows.Bias(row), widened + row_floats);
    // Also turns NaN into a number: nth_element needs an order.
    constexpr float kLargest = std::numeric_limits<float>::max();
    squares[i] = square < kLargest ? square : kLargest;
  });
  center.norm_coordinate_ = true;
  center.bound_squared_ = Quantile(squares, spec.norm_quantile);
  return center;
}

RowCenter RowCenter::Of(const HashSpec& spec, std::vector<float> mean, float bound_squared) {
  RowCenter center;
  center.mean_ = std::move(mean);
  center.norm_coordinate_ = spec.norm_coordinate;
  center.bound_squared_ = bound_squared;
  return center;
}

float RowCenter::Subtract(const float* weights, float bias, float* centered) const {
  const int64_t dim = static_cast<int64_t>(mean_.size()) - 1;
  const float bias_difference = bias - mean_[dim];
  return CenterRow(weights, mean_.data(), centered, dim) + bias_difference * bias_difference;
}

void RowCenter::Center(const float* weights, float bias, float* centered, float* extras) const {
  const float squares = Subtract(weights, bias, centered);
  extras[0] = bias - mean_.back();
  extras[1] = norm_coordinate_ ? std::sqrt(std::max(0.0f, bound_squared_ - squares)) : 0.0f;
}

bool RowCenter::HasMovedFrom(const RowCenter& other, float tolerance) const {
  if (mean_.size() != other.mean_.size()) return true;
  float squares = 0.0f;
  for (size_t i = 0; i < mean_.size(); ++i) {
    squares += (mean_[i] - other.mean_[i]) * (mean_[i] - other.mean_[i]);
  }
  if (!norm_coordinate_) return squares > 0.0f;
  const float limit = tolerance * std::sqrt(other.bound_squared_);
  return std::sqrt(squares) > limit ||
         std::abs(std::sqrt(bound_squared_) - std::sqrt(other.bound_squared_)) > limit;
}

}  // namespace dslide
