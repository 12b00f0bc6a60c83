// A row and its sketch in one word. Internal to core/lsh.

#pragma once

#include <bit>
#include <cstdint>

#include "core/base/ids.h"

namespace dslide {

// The lowest bits of the word are the row, all others the first bits of its sketch: by it a
// selection knows most of the rows that it need not look at. The fewer rows, the more it knows.
class SignedRowLayout {
 public:
  SignedRowLayout() = default;
  // num_rows in [0, 2^32].
  explicit SignedRowLayout(int64_t num_rows)
      : row_bits_(num_rows > 1 ? std::bit_width(static_cast<uint64_t>(num_rows - 1)) : 1) {}

  int row_bits() const { return row_bits_; }
  int sketch_bits() const { return 64 - row_bits_; }

  // Bits of `sketch` beyond sketch_bits() are left out.
  uint64_t Pack(LocalRow row, uint64_t sketch) const { return sketch << row_bits_ | row.value(); }
  LocalRow RowOf(uint64_t signed_row) const {
    return LocalRow(static_cast<uint32_t>(signed_row & ((uint64_t{1} << row_bits_) - 1)));
  }

 private:
  int row_bits_ = 32;
};

}  // namespace dslide
