#include "core/engine/near/long_rows.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "core/engine/math/kernels.h"

namespace dslide {
namespace {

constexpr int64_t kMeasuredPerGrain = 512;
constexpr int64_t kMeasuredRowsAhead = 8;
// Rows whose directions are those of all.
constexpr int64_t kSampledRows = 1024;
// Rows that stay in the cache while they are multiplied with the directions.
constexpr int64_t kRoundedTogether = 32;

// How many of the store's rows are kept at most.
int64_t MostLongRows(const RowStore& store) {
  const int64_t all = std::max<int64_t>(1, store.rows().table_rows());
  const int64_t share = (LongRows::kMost * store.num_rows() + all - 1) / all;
  return std::min(share,
                  std::max<int64_t>(1, LongRows::kMostBytes / WholeRows::BytesOfRow(store.dim())));
}

}  // namespace

LongRows LongRows::Measure(const RowReader& reader, absl::Span<const float> mean,
                           Parallelism parallelism, absl::Span<const uint8_t> left_out) {
  const RowStore& store = reader.store();
  const int64_t num_rows = store.num_rows();
  const int64_t dim = store.dim();
  std::vector<float> squares(static_cast<size_t>(num_rows));
  // For each thread a widened row and a centred one.
  std::vector<float> scratch(
      static_cast<size_t>(std::max(1, parallelism.threads) * 2 * store.stride()));
  const int64_t grains = (num_rows + kMeasuredPerGrain - 1) / kMeasuredPerGrain;
  ParallelFor(parallelism, grains, /*grain=*/1, [&](int64_t grain, int thread) {
    float* const widened = &scratch[static_cast<size_t>(thread * 2 * store.stride())];
    const int64_t end = std::min(num_rows, (grain + 1) * kMeasuredPerGrain);
    for (int64_t i = grain * kMeasuredPerGrain; i < end; ++i) {
      const LocalRow row(static_cast<uint32_t>(i));
      if (i + kMeasuredRowsAhead < end) {
        reader.Prefetch(LocalRow(static_cast<uint32_t>(i + kMeasuredRowsAhead)));
      }
      const float bias = reader.Bias(row) - mean[dim];
      const float square =
          CenterRow(reader.Weights(row, widened), mean.data(), widened + store.stride(), dim) +
          bias * bias;
      // Also turns NaN into a number: sorting needs an order.
      constexpr float kLargest = std::numeric_limits<float>::max();
      squares[i] = square < kLargest ? square : kLargest;
    }
  });
  std::vector<LocalRow> order;
  order.reserve(static_cast<size_t>(num_rows));
  for (int64_t i = 0; i < num_rows; ++i) {
    if (left_out.empty() || left_out[i] == 0) order.emplace_back(static_cast<uint32_t>(i));
  }
  LongRows rows;
  const auto there = static_cast<int64_t>(order.size());
  const int64_t most = std::min(there, MostLongRows(store));
  if (most < there) {
    std::nth_element(order.begin(), order.begin() + most, order.end(), [&](LocalRow a, LocalRow b) {
      const float x = squares[a.value()];
      const float y = squares[b.value()];
      return x != y ? x > y : a < b;
    });
    order.resize(static_cast<size_t>(most));
    std::sort(order.begin(), order.end());
  }
  rows.rows_ = std::move(order);
  rows.Round(reader, parallelism);
  if (dim > kFewColumns && most >= kFewRows) {
    rows.MeasureDirections(reader, mean, squares, parallelism);
  }
  return rows;
}

void LongRows::Round(const RowReader& reader, Parallelism parallelism) {
  const RowStore& store = reader.store();
  const auto size = static_cast<int64_t>(rows_.size());
  whole_ = WholeRows(size, store.dim());
  std::vector<float> widened(
      static_cast<size_t>(std::max(1, parallelism.threads) * store.stride()));
  ParallelFor(parallelism, size, kMeasuredPerGrain, [&](int64_t i, int thread) {
    float* const scratch = &widened[static_cast<size_t>(thread * store.stride())];
    whole_.Set(i, reader.Weights(rows_[i], scratch), reader.Bias(rows_[i]));
  });
}

void LongRows::MeasureDirections(const RowReader& reader, absl::Span<const float> mean,
                                 absl::Span<const float> squares, Parallelism parallelism) {
  const RowStore& store = reader.store();
  const int64_t dim = store.dim();
  const int64_t sampled = std::min(whole_.size(), kSampledRows);
  std::vector<float> sample(static_cast<size_t>(sampled * dim));
  std::vector<float> widened(static_cast<size_t>(store.stride()));
  for (int64_t i = 0; i < sampled; ++i) {
    const int64_t place = i * whole_.size() / sampled;
    if (!whole_.Known(place)) continue;  // stays 0
    CenterRow(reader.Weights(rows_[place], widened.data()), mean.data(), &sample[i * dim], dim);
  }
  directions_ = RowDirections::Measure(sample, dim, parallelism);
  const double held = RoundAlong(reader, mean, parallelism);
  double all = 0;
  for (int64_t i = 0; i < whole_.size(); ++i) {
    if (whole_.Known(i)) all += squares[rows_[i].value()];
  }
  if (all > 0 && held >= kLeastHeld * all) return;
  directions_ = RowDirections();
  along_ = WholeRows();
}

double LongRows::RoundAlong(const RowReader& reader, absl::Span<const float> mean,
                            Parallelism parallelism) {
  constexpr int64_t kCount = RowDirections::kCount;
  std::vector<WholeVector> vectors(kCount);
  for (int64_t i = 0; i < kCount; ++i) vectors[i].Round(directions_.Direction(i));
  std::array<float, kCount> mean_along = {};
  directions_.Project(mean.data(), mean_along.data());
  along_ = WholeRows(whole_.size(), kCount);
  std::vector<float> squares(rows_.size(), 0.0f);
  const int64_t grains = (whole_.size() + kRoundedTogether - 1) / kRoundedTogether;
  ParallelFor(parallelism, grains, /*grain=*/4, [&](int64_t grain, int) {
    const int64_t first = grain * kRoundedTogether;
    const int64_t count = std::min(kRoundedTogether, whole_.size() - first);
    std::array<int32_t, kRoundedTogether> scratch = {};
    std::array<float, kRoundedTogether> products = {};
    std::array<std::array<float, kCount>, kRoundedTogether> numbers = {};
    for (int64_t i = 0; i < kCount; ++i) {
      whole_.Multiply(first, count, vectors[i], scratch.data(), products.data());
      for (int64_t row = 0; row < count; ++row) numbers[row][i] = products[row] - mean_along[i];
    }
    for (int64_t row = 0; row < count; ++row) {
      if (!whole_.Known(first + row)) continue;
      along_.Set(first + row, numbers[row].data(), reader.Bias(rows_[first + row]));
      squares[first + row] = SumOfSquares(numbers[row].data(), kCount);
    }
  });
  return std::accumulate(squares.begin(), squares.end(), 0.0);
}

bool LongRows::Has(LocalRow row) const {
  return std::binary_search(rows_.begin(), rows_.end(), row);
}

void LongRows::FindNear(absl::Span<const float> hidden, int64_t count, LongRowsScratch& scratch,
                        std::vector<LocalRow>& found) const {
  const int64_t near = std::max({kLeastNear, whole_.size() / kRowsPerNear, kNearPerWanted * count});
  if (has_first_pass() && 2 * near <= whole_.size() && WholeVector::Rounds(hidden)) {
    scratch.along.resize(RowDirections::kCount);
    directions_.Project(hidden.data(), scratch.along.data());
    along_.Estimate(scratch.along, scratch.whole, scratch.estimates);
    FindLargest(scratch.estimates, near, scratch.largest, scratch.near);
    whole_.EstimateSome(hidden, scratch.near, scratch.whole, scratch.estimates);
    FindLargest(scratch.estimates, count, scratch.largest, scratch.best);
    for (const uint32_t place : scratch.best) found.push_back(rows_[scratch.near[place]]);
    return;
  }
  if (count >= whole_.size()) {
    found.insert(found.end(), rows_.begin(), rows_.end());
    return;
  }
  whole_.Estimate(hidden, scratch.whole, scratch.estimates);
  FindLargest(scratch.estimates, count, scratch.largest, scratch.best);
  for (const uint32_t place : scratch.best) found.push_back(rows_[place]);
}

}  // namespace dslide
