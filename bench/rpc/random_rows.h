// The rows of one request of a benchmark.

#pragma once

#include <cstdint>
#include <vector>

#include "core/base/ids.h"

namespace dslide::bench {

// `count` different rows out of `table_rows`, drawn by `seed`, ascending. count <= table_rows.
std::vector<RowId> RandomRows(int64_t count, int64_t table_rows, uint64_t seed);

}  // namespace dslide::bench
