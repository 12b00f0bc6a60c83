// Names by the order in which they came, and by how many points they are on.

#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace dslide {

// Costs some 80 bytes a name and what does not fit into a short string. Not thread-safe.
class NameCounts {
 public:
  // The number of a name, from 0; a new one gets the next.
  uint32_t Number(absl::string_view name);
  void Count(uint32_t number) { ++counts_[number]; }

  int64_t size() const { return static_cast<int64_t>(names_.size()); }

  // How names become ids: by falling count, then alphabetically by bytes.
  struct Ranking {
    static constexpr uint32_t kLeftOut = UINT32_MAX;
    std::vector<absl::string_view> names;  // in id order; views into the counts
    std::vector<uint32_t> ids;             // of each number, or kLeftOut
    int64_t left_out = 0;                  // names that were counted but are none of these
  };
  // `known` with their places as ids, whatever their counts, which outlive the result; then others
  // that are counted at least min_count times, until there are max_size. Others with a count of 0
  // are never any of them. Of equal known names the first counts; "" is no name. Requires
  // min_count >= 1.
  Ranking Rank(int64_t min_count, int64_t max_size, absl::Span<const std::string> known = {}) const;
  // The id of each number in `names`, of which it is the place; kLeftOut where it is none of them.
  // Of equal names the first counts; "" is no name.
  std::vector<uint32_t> Match(absl::Span<const std::string> names) const;

 private:
  std::deque<std::string> names_;  // never move
  std::vector<int64_t> counts_;
  absl::flat_hash_map<absl::string_view, uint32_t> numbers_;  // keys point into names_
};

}  // namespace dslide
