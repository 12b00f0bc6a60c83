#include "services/shard/state/sample_rows.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/shard/state/refusal.h"

namespace dslide::shard {

absl::Status CheckOffsets(const std::vector<uint32_t>& offsets, size_t total,
                          absl::string_view field) {
  if (offsets.size() >= 2 && offsets.front() == 0 && offsets.back() == total &&
      std::is_sorted(offsets.begin(), offsets.end())) {
    return absl::OkStatus();
  }
  return Refuse(reason::kBadOffsets,
                absl::StrCat(field, " must ascend from 0 to the ", total, " elements"));
}

std::vector<uint32_t> SortInSamples(absl::Span<const uint32_t> offsets,
                                    std::vector<LocalRow>& rows) {
  std::vector<uint32_t> origin(rows.size());
  std::iota(origin.begin(), origin.end(), 0);
  for (size_t sample = 0; sample + 1 < offsets.size(); ++sample) {
    std::sort(origin.begin() + offsets[sample], origin.begin() + offsets[sample + 1],
              [&](uint32_t a, uint32_t b) { return rows[a] < rows[b]; });
  }
  std::vector<LocalRow> sorted(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) sorted[i] = rows[origin[i]];
  rows = std::move(sorted);
  return origin;
}

absl::Status CheckAscending(const std::vector<uint32_t>& offsets, const std::vector<RowId>& rows,
                            absl::string_view field) {
  for (size_t sample = 0; sample + 1 < offsets.size(); ++sample) {
    for (uint32_t i = offsets[sample] + 1; i < offsets[sample + 1]; ++i) {
      if (rows[i] <= rows[i - 1]) {
        return Refuse(reason::kNotAscending,
                      absl::StrCat(field, " must be strictly ascending within a sample"));
      }
    }
  }
  return absl::OkStatus();
}

std::vector<float> InOrderOf(const std::vector<uint32_t>& origin,
                             const std::vector<float>& values) {
  if (values.empty()) return {};
  std::vector<float> ordered(origin.size());
  for (size_t i = 0; i < origin.size(); ++i) ordered[i] = values[origin[i]];
  return ordered;
}

}  // namespace dslide::shard
