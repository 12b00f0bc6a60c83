#include "core/engine/near/largest_estimates.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>

namespace dslide {
namespace {

// The first bits of an estimate's order are its bin: its sign, its exponent and a few more.
constexpr int kBinShift = 19;
constexpr size_t kBins = size_t{1} << (32 - kBinShift);

// With the sign turned, and all bits where it is negative, floats are ordered as whole numbers.
uint32_t OrderOf(float estimate) {
  constexpr uint32_t kSign = 0x80000000u;
  const auto bits = std::bit_cast<uint32_t>(estimate);
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

}  // namespace

void FindLargest(absl::Span<const float> estimates, int64_t count, LargestScratch& scratch,
                 std::vector<uint32_t>& places) {
  const size_t size = estimates.size();
  if (count >= static_cast<int64_t>(size)) {
    places.resize(size);
    std::iota(places.begin(), places.end(), 0);
    return;
  }
  places.clear();
  if (count <= 0) return;
  scratch.counts.assign(kBins, 0);
  for (const float estimate : estimates) ++scratch.counts[OrderOf(estimate) >> kBinShift];
  // All of the bins above one are taken, and the best of that.
  size_t bin = kBins;
  int64_t taken = 0;
  while (taken < count) taken += scratch.counts[--bin];
  const int64_t of_bin = count - (taken - scratch.counts[bin]);
  // Without a branch: which estimates are large cannot be foretold.
  const uint32_t floor = static_cast<uint32_t>(bin) << kBinShift;
  scratch.candidates.resize(size);
  size_t candidates = 0;
  for (size_t i = 0; i < size; ++i) {
    scratch.candidates[candidates] = static_cast<uint32_t>(i);
    candidates += OrderOf(estimates[i]) >= floor ? 1 : 0;
  }
  scratch.candidates.resize(candidates);
  scratch.ties.clear();
  for (const uint32_t place : scratch.candidates) {
    if (OrderOf(estimates[place]) >> kBinShift == bin) scratch.ties.push_back(place);
  }
  const auto last = scratch.ties.begin() + (of_bin - 1);
  std::nth_element(scratch.ties.begin(), last, scratch.ties.end(), [&](uint32_t a, uint32_t b) {
    const uint32_t x = OrderOf(estimates[a]);
    const uint32_t y = OrderOf(estimates[b]);
    return x != y ? x > y : a < b;
  });
  const uint32_t least = OrderOf(estimates[*last]);
  for (const uint32_t place : scratch.candidates) {
    const uint32_t order = OrderOf(estimates[place]);
    if (order > least || (order == least && place <= *last)) places.push_back(place);
  }
}

}  // namespace dslide
