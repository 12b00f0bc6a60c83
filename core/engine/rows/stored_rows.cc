#include "core/engine/rows/stored_rows.h"

#include <algorithm>
#include <vector>

namespace dslide {
namespace {

// Rows that a thread takes at once when all rows are visited.
constexpr int64_t kDigestGrain = 1024;

}  // namespace

uint64_t StoredRows::Digest(Parallelism parallelism) const {
  const int64_t num_rows = rows_.num_rows();
  const int64_t grains = (num_rows + kDigestGrain - 1) / kDigestGrain;
  std::vector<uint64_t> sums(grains, 0);
  ParallelFor(parallelism, grains, /*grain=*/1, [&](int64_t grain, int) {
    const int64_t end = std::min(num_rows, (grain + 1) * kDigestGrain);
    for (int64_t i = grain * kDigestGrain; i < end; ++i) {
      const LocalRow row(static_cast<uint32_t>(i));
      sums[grain] += DigestOf(row, RecordSpan(row));
    }
  });
  uint64_t digest = 0;
  for (const uint64_t sum : sums) digest += sum;
  return digest;
}

std::shared_ptr<RowSnapshot> StoredRows::StartSnapshot(int64_t max_copied_bytes) {
  snapshot_ = std::make_shared<RowSnapshot>(*this, max_copied_bytes);
  return snapshot_;
}

}  // namespace dslide
