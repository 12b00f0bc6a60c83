#include "core/engine/rows/row_changes.h"

#include <algorithm>

namespace dslide {

int64_t ChangedRows::Count() const {
  return std::count_if(marks_.begin(), marks_.end(),
                       [this](uint8_t mark) { return mark > since_; });
}

void RowChanges::Cut(uint64_t cut) {
  std::erase_if(ends_, [cut](const End& end) { return end.cut == cut; });
  if (interval_ > kMaxCuts) {
    std::fill(marks_.begin(), marks_.end(), uint8_t{0});
    interval_ = 1;
    ends_.clear();
  }
  ends_.push_back({cut, interval_});
  ++interval_;
}

std::optional<ChangedRows> RowChanges::Since(uint64_t cut) const {
  const auto end = std::find_if(ends_.begin(), ends_.end(),
                                [cut](const End& known) { return known.cut == cut; });
  if (end == ends_.end()) return std::nullopt;
  return ChangedRows(marks_, end->interval);
}

}  // namespace dslide
