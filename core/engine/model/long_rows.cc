#include "core/engine/model/long_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "core/engine/math/kernels.h"

namespace dslide {
namespace {

constexpr int64_t kMeasuredPerGrain = 512;
constexpr int64_t kMeasuredRowsAhead = 8;
// The sign, the exponent and the first bits of an estimate name its bin: those of positive floats
// are ordered as whole numbers.
constexpr int kBinShift = 19;
constexpr size_t kBins = size_t{1} << (32 - kBinShift);

size_t BinOf(float estimate) { return std::bit_cast<uint32_t>(estimate) >> kBinShift; }

// [num_codes + 1]: what so many equal codes say of the cosine, at least 0.
std::vector<float> CosinesOf(const HashFamily& family, int64_t num_codes) {
  const bool bits = num_codes == family.num_tables() * family.fingerprint_bits();
  std::vector<float> cosines(static_cast<size_t>(num_codes) + 1);
  for (int64_t equal = 0; equal <= num_codes; ++equal) {
    const double share = static_cast<double>(equal) / static_cast<double>(num_codes);
    // Codes of more than a bit say no more than that more of them are nearer.
    const double cosine = bits ? std::cos(std::numbers::pi * (1.0 - share)) : share;
    cosines[equal] = static_cast<float>(std::max(0.0, cosine));
  }
  return cosines;
}

}  // namespace

LongRows LongRows::Measure(const RowReader& reader, absl::Span<const float> mean,
                           Parallelism parallelism) {
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
  std::vector<LocalRow> order(static_cast<size_t>(num_rows));
  for (int64_t i = 0; i < num_rows; ++i) order[i] = LocalRow(static_cast<uint32_t>(i));
  const int64_t most = std::min(kMost, num_rows);
  if (most < num_rows) {
    std::nth_element(order.begin(), order.begin() + most, order.end(), [&](LocalRow a, LocalRow b) {
      const float x = squares[a.value()];
      const float y = squares[b.value()];
      return x != y ? x > y : a < b;
    });
    order.resize(static_cast<size_t>(most));
    std::sort(order.begin(), order.end());
  }
  LongRows rows;
  for (const LocalRow row : order) {
    const float square = squares[row.value()];
    rows.weights_.push_back(
        std::min(square * std::sqrt(square), std::numeric_limits<float>::max()));
  }
  rows.rows_ = std::move(order);
  return rows;
}

bool LongRows::Has(LocalRow row) const {
  return std::binary_search(rows_.begin(), rows_.end(), row);
}

void LongRows::FindNear(const HashIndex& index, absl::Span<const uint32_t> fingerprints,
                        int64_t count, LongRowsScratch& scratch,
                        std::vector<LocalRow>& found) const {
  const size_t num_rows = rows_.size();
  if (count >= static_cast<int64_t>(num_rows)) {
    found.insert(found.end(), rows_.begin(), rows_.end());
    return;
  }
  scratch.equal.resize(num_rows);
  index.CountEqual(fingerprints, rows_, absl::MakeSpan(scratch.equal));
  const std::vector<float> cosines = CosinesOf(index.family(), index.num_codes());
  scratch.estimates.resize(num_rows);
  scratch.counts.assign(kBins, 0);
  for (size_t i = 0; i < num_rows; ++i) {
    scratch.estimates[i] = weights_[i] * cosines[scratch.equal[i]];
    ++scratch.counts[BinOf(scratch.estimates[i])];
  }
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
