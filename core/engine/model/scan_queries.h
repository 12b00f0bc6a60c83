// The queries of a scan as small whole numbers, with what their rounding, that of rows and that of
// float arithmetic can do to a logit (core/engine/math/kernels_scan.h).

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/engine/math/kernels_scan.h"

namespace dslide {

// Immutable and thread-safe. Keeps no reference to the hidden vectors.
class ScanQueries {
 public:
  // Whether whole numbers can stand for these: for queries of finite lengths below kMostScanned.
  // hidden: [count, dim].
  static bool Serve(absl::Span<const float> hidden, int64_t count, int64_t dim);

  // Requires Serve().
  ScanQueries(absl::Span<const float> hidden, int64_t count, int64_t dim);

  const ScanShape& shape() const { return shape_; }
  int64_t blocks() const { return (count_ + kScanQueries - 1) / kScanQueries; }
  // Queries [block * kScanQueries, ...). wanted: [blocks() * kScanQueries], 64-byte aligned: from
  // which logit on a row matters to each query.
  ScanBlock Block(int64_t block, const float* wanted) const;
  // What a scanned row's bias is: with what float arithmetic can do to it.
  static float BiasOf(float bias);

 private:
  // What ScanBlock says of the queries of a block.
  struct alignas(64) Lanes {
    float units[kScanQueries] = {};
    float spreads[kScanQueries] = {};
    float slopes[kScanQueries] = {};
  };
  // Four columns of the queries of a block.
  struct alignas(64) Four {
    uint8_t whole[kScanQueries][4] = {};
  };

  void Round(const float* query, int64_t place);

  const int64_t count_;
  const ScanShape shape_;
  std::vector<Lanes> lanes_;  // [blocks]
  std::vector<Four> whole_;   // [blocks, segments, kScanSegment / 4]
};

}  // namespace dslide
