#include "core/engine/lsh/selection.h"

#include <algorithm>

namespace dslide {

bool Selection::FoundByHashing(LocalRow row) const {
  return std::find(active.begin(), active.end(), row) != active.end() &&
         !std::binary_search(missed_labels.begin(), missed_labels.end(), row);
}

}  // namespace dslide
