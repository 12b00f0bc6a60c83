#include "core/engine/memory/neighbour_candidates.h"

#include <algorithm>

namespace dslide {

void NeighbourCandidates::Start(int64_t k) {
  floor_.Start(k);
  candidates_.clear();
}

absl::Span<const NeighbourCandidates::Candidate> NeighbourCandidates::Sorted() {
  std::erase_if(candidates_, [&](const Candidate& it) { return it.upper < floor(); });
  std::sort(candidates_.begin(), candidates_.end(),
            [](const Candidate& a, const Candidate& b) { return a.upper > b.upper; });
  return candidates_;
}

}  // namespace dslide
