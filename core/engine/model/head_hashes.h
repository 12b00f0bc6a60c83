// What a head's hash tables are made of, beside its rows.

#pragma once

#include <cstdint>
#include <vector>

#include "core/engine/lsh/index_state.h"

namespace dslide {

struct HeadHashes {
  IndexState index;
  // [num_rows] 1 where the row has changed since it was hashed.
  std::vector<uint8_t> dirty;
};

}  // namespace dslide
