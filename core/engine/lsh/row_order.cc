#include "core/engine/lsh/row_order.h"

#include <algorithm>
#include <array>
#include <bit>

namespace dslide {
namespace {

constexpr int64_t kBinBits = 8;
constexpr int64_t kBins = int64_t{1} << kBinBits;
// Below this, clearing and summing the bins costs more than it saves.
constexpr int64_t kFewRows = 48;

using BinCounts = std::array<uint32_t, kBins + 1>;

int64_t BinShift(int64_t num_rows) {
  return std::max<int64_t>(0, std::bit_width(static_cast<uint64_t>(num_rows)) - kBinBits);
}

}  // namespace

void KeepSmallest(absl::Span<LocalRow> rows, int64_t count, int64_t num_rows,
                  absl::Span<LocalRow> buffer) {
  if (static_cast<int64_t>(rows.size()) < kFewRows) {
    std::nth_element(rows.begin(), rows.begin() + count, rows.end());
    return;
  }
  const int64_t shift = BinShift(num_rows);
  BinCounts counts{};
  for (const LocalRow row : rows) ++counts[row.value() >> shift];
  int64_t left = count;
  uint32_t last_bin = 0;  // the only bin that is taken in part
  while (left > counts[last_bin]) left -= counts[last_bin++];
  LocalRow* below = rows.data();
  LocalRow* equal = buffer.data();
  for (const LocalRow row : rows) {
    const uint32_t bin = row.value() >> shift;
    *equal = row;
    equal += bin == last_bin;
    *below = row;
    below += bin < last_bin;
  }
  if (left == 0) return;
  std::nth_element(buffer.data(), buffer.data() + left, equal);
  std::copy_n(buffer.data(), left, below);
}

}  // namespace dslide
