#include "core/engine/model/long_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "core/engine/math/kernels.h"

namespace dslide {
namespace {

constexpr int64_t kMeasuredPerGrain = 512;
constexpr int64_t kMeasuredRowsAhead = 8;
// The sign, the exponent and the first bits of an estimate name its bin: with the sign turned, and
// all bits where it is negative, floats are ordered as whole numbers.
constexpr int kBinShift = 19;
constexpr size_t kBins = size_t{1} << (32 - kBinShift);

size_t BinOf(float estimate) {
  constexpr uint32_t kSign = 0x80000000u;
  const auto bits = std::bit_cast<uint32_t>(estimate);
  return ((bits & kSign) != 0 ? ~bits : bits | kSign) >> kBinShift;
}

}  // namespace

LongRows LongRows::Measure(const RowReader& reader, absl::Span<const float> mean,
                           Parallelism parallelism, LeftOutRows left_out) {
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
  rows.columns_ = ScanShape{dim, false}.segments() * kScanSegment;
  const auto there = static_cast<int64_t>(order.size());
  const int64_t most = std::min({there, kMost, std::max<int64_t>(1, kMostBytes / rows.columns_)});
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
  return rows;
}

void LongRows::Round(const RowReader& reader, Parallelism parallelism) {
  const RowStore& store = reader.store();
  const ScanShape shape{store.dim(), false};
  scanned_.resize(rows_.size());
  whole_.resize(rows_.size() * static_cast<size_t>(shape.segments()));
  std::vector<float> widened(
      static_cast<size_t>(std::max(1, parallelism.threads) * store.stride()));
  ParallelFor(parallelism, static_cast<int64_t>(rows_.size()), kMeasuredPerGrain,
              [&](int64_t i, int thread) {
                const float* const weights = reader.Weights(
                    rows_[i], &widened[static_cast<size_t>(thread * store.stride())]);
                ScanRows(&weights, 1, shape, whole_[i * shape.segments()].whole, &scanned_[i]);
                scanned_[i].bias = reader.Bias(rows_[i]);
              });
}

bool LongRows::Has(LocalRow row) const {
  return std::binary_search(rows_.begin(), rows_.end(), row);
}

// What logits are likely, but for a factor and a term that all of them share.
void LongRows::Estimate(absl::Span<const float> hidden, LongRowsScratch& scratch) const {
  const int64_t num_rows = static_cast<int64_t>(rows_.size());
  scratch.query.assign(static_cast<size_t>(columns_ / ScanLine<int16_t>::kNumbers), {});
  int16_t* const query = scratch.query.data()->whole;
  float most = 0.0f;
  for (const float x : hidden) most = std::max(most, std::abs(x));
  // Also where there is none, or no number: then the bias decides.
  const bool usual = most >= kLeastScanned &&
                     AllWithin(hidden.data(), static_cast<int64_t>(hidden.size()), kMostScanned);
  const float unit = usual ? most / static_cast<float>(ProductLimit(columns_)) : 1.0f;
  for (size_t i = 0; usual && i < hidden.size(); ++i) {
    query[i] = static_cast<int16_t>(std::lrint(hidden[i] / unit));
  }
  scratch.products.resize(rows_.size());
  WholeProducts(whole_.data()->whole, num_rows, columns_, query, scratch.products.data());
  scratch.estimates.resize(rows_.size());
  for (int64_t i = 0; i < num_rows; ++i) {
    const ScannedRow& row = scanned_[i];
    // A row that no whole numbers stand for is looked at in any case.
    scratch.estimates[i] =
        row.length < kMostScanned
            ? row.bias + row.unit * unit * static_cast<float>(scratch.products[i])
            : std::numeric_limits<float>::max();
  }
}

void LongRows::FindNear(absl::Span<const float> hidden, int64_t count, LongRowsScratch& scratch,
                        std::vector<LocalRow>& found) const {
  const size_t num_rows = rows_.size();
  if (count >= static_cast<int64_t>(num_rows)) {
    found.insert(found.end(), rows_.begin(), rows_.end());
    return;
  }
  Estimate(hidden, scratch);
  scratch.counts.assign(kBins, 0);
  for (const float estimate : scratch.estimates) ++scratch.counts[BinOf(estimate)];
  // All of the bins above one, and of that the best.
  size_t bin = kBins;
  int64_t above = 0;
  while (above < count) above += scratch.counts[--bin];
  const int64_t of_bin = count - (above - (bin < kBins ? scratch.counts[bin] : 0));
  scratch.ties.clear();
  for (size_t i = 0; i < num_rows; ++i) {
    const size_t own = BinOf(scratch.estimates[i]);
    if (own > bin) found.push_back(rows_[i]);
    if (own == bin) scratch.ties.push_back(static_cast<uint32_t>(i));
  }
  std::nth_element(scratch.ties.begin(), scratch.ties.begin() + of_bin, scratch.ties.end(),
                   [&](uint32_t a, uint32_t b) {
                     const float x = scratch.estimates[a];
                     const float y = scratch.estimates[b];
                     return x != y ? x > y : a < b;
                   });
  for (int64_t i = 0; i < of_bin; ++i) found.push_back(rows_[scratch.ties[i]]);
}

}  // namespace dslide
