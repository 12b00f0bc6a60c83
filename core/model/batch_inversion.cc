#include "core/model/batch_inversion.h"

#include <algorithm>
#include <array>
#include <bit>

namespace dslide {
namespace {

constexpr int kMaxDigitBits = 11;  // 2,048 counters stay in the L1 cache

// One stable counting pass over the digit of `bits` bits at `shift`.
void SortByDigit(const std::vector<uint64_t>& from, std::vector<uint64_t>& to, int shift,
                 int bits) {
  std::array<uint32_t, size_t{1} << kMaxDigitBits> next = {};
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  for (const uint64_t key : from) ++next[key >> shift & mask];
  uint32_t begin = 0;
  for (uint64_t digit = 0; digit <= mask; ++digit) {
    const uint32_t count = next[digit];
    next[digit] = begin;
    begin += count;
  }
  for (const uint64_t key : from) to[next[key >> shift & mask]++] = key;
}

}  // namespace

absl::Span<uint64_t> BatchInversion::ResizeKeys(int64_t pairs) {
  keys_.resize(pairs);
  return absl::MakeSpan(keys_);
}

void BatchInversion::Invert(int64_t num_rows) {
  buffer_.resize(keys_.size());
  const int row_bits = std::bit_width(static_cast<uint64_t>(std::max<int64_t>(num_rows - 1, 1)));
  const int passes = (row_bits + kMaxDigitBits - 1) / kMaxDigitBits;
  for (int pass = 0; pass < passes; ++pass) {
    const int low = row_bits * pass / passes;
    const int high = row_bits * (pass + 1) / passes;
    SortByDigit(keys_, buffer_, 32 + low, high - low);
    keys_.swap(buffer_);
  }
  rows_.clear();
  offsets_.clear();
  tags_.resize(keys_.size());
  for (size_t i = 0; i < keys_.size(); ++i) {
    const LocalRow row(static_cast<uint32_t>(keys_[i] >> 32));
    if (rows_.empty() || rows_.back() != row) {
      rows_.push_back(row);
      offsets_.push_back(static_cast<uint32_t>(i));
    }
    tags_[i] = static_cast<uint32_t>(keys_[i]);
  }
  offsets_.push_back(static_cast<uint32_t>(keys_.size()));
}

}  // namespace dslide
