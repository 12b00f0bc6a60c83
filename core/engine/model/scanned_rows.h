// All rows of a head as small whole numbers, kept between scans: to read them is to read a quarter
// of the weights, and nothing is left to round (core/engine/math/kernels_scan.h).

#pragma once

#include <cstdint>
#include <vector>

#include "core/base/ids.h"
#include "core/base/parallel.h"
#include "core/engine/math/kernels_scan.h"
#include "core/engine/rows/row_reader.h"

namespace dslide {

// As the rows are when it is made. Immutable and thread-safe.
class ScannedRows {
 public:
  // Memory for so many rows.
  static int64_t BytesOf(int64_t rows, int64_t dim);

  // Reads all rows.
  ScannedRows(const RowReader& reader, Parallelism parallelism);

  // Rows from `row` on: ScannedRow for each, and [segments, kScanSegment] whole numbers, of no
  // negated ones.
  const ScannedRow* scanned(LocalRow row) const { return &scanned_[row.value()]; }
  const int8_t* whole(LocalRow row) const { return whole_[row.value() * lines_].whole; }

 private:
  const int64_t lines_;  // of a row
  std::vector<ScannedRow> scanned_;
  std::vector<ScanLine<int8_t>> whole_;  // [rows, lines]
};

}  // namespace dslide
