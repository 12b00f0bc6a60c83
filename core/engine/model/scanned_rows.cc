#include "core/engine/model/scanned_rows.h"

#include <algorithm>

#include "core/engine/model/scan_queries.h"
#include "core/engine/rows/aligned_floats.h"

namespace dslide {
namespace {

constexpr int64_t kScannedPerGrain = 512;
constexpr int64_t kScannedRowsAhead = 8;

int64_t LinesOf(int64_t dim) { return ScanShape{.columns = dim, .is_signed = false}.segments(); }

static_assert(ScanLine<int8_t>::kNumbers == kScanSegment);

}  // namespace

int64_t ScannedRows::BytesOf(int64_t rows, int64_t dim) {
  return rows * (LinesOf(dim) * kScanSegment + static_cast<int64_t>(sizeof(ScannedRow)));
}

ScannedRows::ScannedRows(const RowReader& reader, Parallelism parallelism)
    : lines_(LinesOf(reader.store().dim())),
      scanned_(static_cast<size_t>(reader.store().num_rows())),
      whole_(static_cast<size_t>(reader.store().num_rows() * lines_)) {
  const RowStore& store = reader.store();
  const int64_t rows = store.num_rows();
  std::vector<AlignedFloats> widened(static_cast<size_t>(std::max(1, parallelism.threads)));
  for (AlignedFloats& row : widened) row.Resize(store.stride());
  const int64_t grains = (rows + kScannedPerGrain - 1) / kScannedPerGrain;
  ParallelFor(parallelism, grains, /*grain=*/1, [&](int64_t grain, int thread) {
    const int64_t end = std::min(rows, (grain + 1) * kScannedPerGrain);
    for (int64_t i = grain * kScannedPerGrain; i < end; ++i) {
      const LocalRow row(static_cast<uint32_t>(i));
      if (i + kScannedRowsAhead < end) {
        reader.Prefetch(LocalRow(static_cast<uint32_t>(i + kScannedRowsAhead)));
      }
      const float* const weights = reader.Weights(row, widened[thread].data());
      ScanRows(&weights, 1, {.columns = store.dim(), .is_signed = false}, whole_[i * lines_].whole,
               &scanned_[i]);
      scanned_[i].bias = ScanQueries::BiasOf(reader.Bias(row));
    }
  });
}

}  // namespace dslide
