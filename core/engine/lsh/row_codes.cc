#include "core/engine/lsh/row_codes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "core/base/prefetch.h"

namespace dslide {
namespace {

constexpr size_t kRowsAhead = 16;
constexpr size_t kUnrolledWords = 16;

}  // namespace

void RowCodes::Reset(int64_t num_tables, int64_t codes_per_table, int64_t bits_per_code,
                     int64_t num_rows) {
  num_tables_ = num_tables;
  num_rows_ = num_rows;
  shape_ = {num_tables * codes_per_table, bits_per_code, /*lowest_bits=*/0};
  fingerprint_bits_ = codes_per_table * bits_per_code;
  fingerprint_mask_ = (uint32_t{1} << fingerprint_bits_) - 1;
  tables_per_word_ = 64 / fingerprint_bits_;
  stride_ = WordsPerRow(num_tables, fingerprint_bits_);
  for (int64_t code = 0; code < tables_per_word_ * codes_per_table; ++code) {
    shape_.lowest_bits |= uint64_t{1} << (code * bits_per_code);
  }
  words_.assign(num_rows * stride_, 0);
}

void RowCodes::Pack(const uint32_t* fingerprints, uint64_t* words) const {
  for (int64_t w = 0; w < stride_; ++w) {
    const int64_t first = w * tables_per_word_;
    const int64_t last = std::min(first + tables_per_word_, num_tables_);
    uint64_t word = 0;
    for (int64_t t = first; t < last; ++t) {
      word |= uint64_t{fingerprints[t] & fingerprint_mask_} << ((t - first) * fingerprint_bits_);
    }
    words[w] = word;
  }
}

void RowCodes::Prefetch(absl::Span<const LocalRow> rows) const {
  const uint64_t* const all = words_.data();
  for (const LocalRow row : rows) {
    const uint64_t* const words = all + row.value() * stride_;
    PrefetchLines(words, stride_ * static_cast<int64_t>(sizeof(uint64_t)));
    // A run may cross a line's end.
    if (stride_ > 2) PrefetchLine(words + stride_ - 1);
  }
}

void RowCodes::CopyToColumns(absl::Span<const LocalRow> rows, int64_t stride,
                             uint64_t* columns) const {
  const uint64_t* const all = words_.data();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + kRowsAhead < rows.size()) Prefetch(rows.subspan(i + kRowsAhead, 1));
    const uint64_t* const words = all + rows[i].value() * stride_;
    for (int64_t w = 0; w < stride_; ++w) columns[w * stride + static_cast<int64_t>(i)] = words[w];
  }
}

RowCodes::SketchOf RowCodes::SketchFor(int64_t table) const {
  SketchOf sketch;
  sketch.word_ = table / tables_per_word_;
  sketch.next_word_ = (sketch.word_ + 1) % stride_;
  const int64_t first_table = sketch.word_ * tables_per_word_;
  const int64_t tables = std::min(tables_per_word_, num_tables_ - first_table);
  sketch.last_own_bit_ = (table - first_table + 1) * fingerprint_bits_ - 1;
  sketch.rest_bits_ = tables * fingerprint_bits_ - 1 - sketch.last_own_bit_;
  return sketch;
}

// Codes of one bit in rows of a few words, unrolled: most of the time of a selection is spent here.
template <int64_t kWords>
void RowCodes::CountEqualBits(absl::Span<const LocalRow> rows, const uint64_t* query,
                              uint16_t* equal) const {
  std::array<uint64_t, kWords> wanted;
  std::copy_n(query, kWords, wanted.begin());
  const uint64_t* const all = words_.data();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + kRowsAhead < rows.size()) {
      __builtin_prefetch(all + rows[i + kRowsAhead].value() * kWords);
    }
    const uint64_t* const words = all + rows[i].value() * kWords;
    int64_t different = 0;
    for (int64_t w = 0; w < kWords; ++w) different += std::popcount(words[w] ^ wanted[w]);
    equal[i] = static_cast<uint16_t>(shape_.num_codes - different);
  }
}

void RowCodes::CountEqual(absl::Span<const LocalRow> rows, const uint64_t* query,
                          uint16_t* equal) const {
  using Count = void (RowCodes::*)(absl::Span<const LocalRow>, const uint64_t*, uint16_t*) const;
  static constexpr auto kUnrolled = []<size_t... kIndex>(std::index_sequence<kIndex...>) {
    return std::array<Count, kUnrolledWords>{&RowCodes::CountEqualBits<kIndex + 1>...};
  }
  (std::make_index_sequence<kUnrolledWords>());
  if (shape_.bits_per_code == 1 && stride_ <= static_cast<int64_t>(kUnrolledWords)) {
    (this->*kUnrolled[stride_ - 1])(rows, query, equal);
    return;
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint64_t* const words = &words_[rows[i].value() * stride_];
    int64_t different = 0;
    for (int64_t w = 0; w < stride_; ++w) {
      different += DifferentCodes(words[w] ^ query[w], shape_);
    }
    equal[i] = static_cast<uint16_t>(shape_.num_codes - different);
  }
}

}  // namespace dslide
