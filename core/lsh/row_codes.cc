#include "core/lsh/row_codes.h"

#include <algorithm>

namespace dslide {

void RowCodes::Reset(int64_t num_tables, int64_t codes_per_table, int64_t bits_per_code,
                     int64_t num_rows) {
  num_tables_ = num_tables;
  num_codes_ = num_tables * codes_per_table;
  bits_per_code_ = bits_per_code;
  fingerprint_bits_ = codes_per_table * bits_per_code;
  tables_per_word_ = 64 / fingerprint_bits_;
  stride_ = (num_tables + tables_per_word_ - 1) / tables_per_word_;
  lowest_bits_ = 0;
  for (int64_t code = 0; code < tables_per_word_ * codes_per_table; ++code) {
    lowest_bits_ |= uint64_t{1} << (code * bits_per_code);
  }
  words_.assign(num_rows * stride_, 0);
}

void RowCodes::Pack(const uint32_t* fingerprints, uint64_t* words) const {
  const uint64_t mask = (uint64_t{1} << fingerprint_bits_) - 1;
  for (int64_t w = 0; w < stride_; ++w) {
    const int64_t first = w * tables_per_word_;
    const int64_t last = std::min(first + tables_per_word_, num_tables_);
    uint64_t word = 0;
    for (int64_t t = first; t < last; ++t) {
      word |= (fingerprints[t] & mask) << ((t - first) * fingerprint_bits_);
    }
    words[w] = word;
  }
}

}  // namespace dslide
