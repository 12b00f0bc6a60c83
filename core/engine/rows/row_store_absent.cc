// Rows of a head that are not there.

#include <vector>

#include "core/engine/rows/row_store.h"

namespace dslide {

std::vector<LocalRow> RowStore::SetAbsent(absl::Span<const uint8_t> marked) {
  std::vector<LocalRow> changed;
  if (marked.empty() && present() == num_rows()) return changed;
  const auto num_rows = static_cast<int64_t>(absent_.size());
  int64_t released = 0;  // the first row of a run of absent ones
  for (int64_t i = 0; i < num_rows; ++i) {
    const LocalRow row(static_cast<uint32_t>(i));
    const bool absent = !marked.empty() && marked[i] != 0;
    if (absent != IsAbsent(row)) {
      changed.push_back(row);
      Preserve(row);
      if (!absent) FillFirst(row);
      absent_[i] = absent ? 1 : 0;
      num_absent_.fetch_add(absent ? 1 : -1, std::memory_order_relaxed);
    }
    if (absent) continue;
    ReleasePages(released, i);
    released = i + 1;
  }
  ReleasePages(released, num_rows);
  return changed;
}

void RowStore::ReleasePages(int64_t first, int64_t end) {
  if (first < end) buffer_.Release(first * layout_.record_bytes, end * layout_.record_bytes);
}

}  // namespace dslide
