#include "core/lsh/row_center.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dslide {
namespace {

constexpr int64_t kLanes = 8;

// [dim + 1] means of the rows and the biases, summed in double in a fixed number of partitions.
std::vector<float> MeanRow(const HashedRows& rows, Parallelism parallelism) {
  const int64_t dim = rows.dim();
  std::vector<std::vector<double>> sums(kFixedPartitions);
  ParallelFor(parallelism, kFixedPartitions, /*grain=*/1, [&](int64_t partition, int) {
    std::vector<double>& sum = sums[partition];
    sum.assign(dim + 1, 0.0);
    std::vector<float> scratch(RowScratchFloats(dim));
    const auto [begin, end] = PartitionRange(rows.num_rows(), kFixedPartitions, partition);
    for (int64_t r = begin; r < end; ++r) {
      const LocalRow row(static_cast<uint32_t>(r));
      const float* weights = rows.ReadWeights(row, scratch.data());
      for (int64_t i = 0; i < dim; ++i) sum[i] += static_cast<double>(weights[i]);
      sum[dim] += static_cast<double>(rows.Bias(row));
    }
  });
  std::vector<float> mean(dim + 1, 0.0f);
  if (rows.num_rows() == 0) return mean;
  for (int64_t i = 0; i <= dim; ++i) {
    double total = 0.0;
    for (const std::vector<double>& sum : sums) total += sum[i];
    mean[i] = static_cast<float>(total / static_cast<double>(rows.num_rows()));
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
  RowCenter center;
  center.mean_ =
      spec.center ? MeanRow(rows, parallelism) : std::vector<float>(rows.dim() + 1, 0.0f);
  center.norm_coordinate_ = spec.norm_coordinate;
  if (!spec.norm_coordinate) return center;
  std::vector<float> squares(rows.num_rows());
  const int64_t scratch_floats = RowScratchFloats(rows.dim());
  std::vector<float> scratch(std::max(1, parallelism.threads) * scratch_floats);
  ParallelFor(parallelism, rows.num_rows(), /*grain=*/256, [&](int64_t r, int thread) {
    const LocalRow row(static_cast<uint32_t>(r));
    const float* const weights = rows.ReadWeights(row, &scratch[thread * scratch_floats]);
    const float square = center.CenteredSquares(weights, rows.Bias(row));
    // Also turns NaN into a number: nth_element needs an order.
    constexpr float kLargest = std::numeric_limits<float>::max();
    squares[r] = square < kLargest ? square : kLargest;
  });
  center.bound_squared_ = Quantile(squares, spec.norm_quantile);
  return center;
}

// kLanes running sums, so that the compiler may use vectors without changing the result.
float RowCenter::CenteredSquares(const float* weights, float bias) const {
  const int64_t dim = static_cast<int64_t>(mean_.size()) - 1;
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= dim; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const float difference = weights[i + lane] - mean_[i + lane];
      sums[lane] += difference * difference;
    }
  }
  for (; i < dim; ++i) {
    const float difference = weights[i] - mean_[i];
    sums[i % kLanes] += difference * difference;
  }
  const float bias_difference = bias - mean_[dim];
  float total = bias_difference * bias_difference;
  for (const float sum : sums) total += sum;
  return total;
}

void RowCenter::Center(const float* weights, float bias, float* centered, float* extras) const {
  const int64_t dim = static_cast<int64_t>(mean_.size()) - 1;
  for (int64_t i = 0; i < dim; ++i) centered[i] = weights[i] - mean_[i];
  extras[0] = bias - mean_[dim];
  extras[1] = 0.0f;
  if (norm_coordinate_) {
    extras[1] = std::sqrt(std::max(0.0f, bound_squared_ - CenteredSquares(weights, bias)));
  }
}

}  // namespace dslide
