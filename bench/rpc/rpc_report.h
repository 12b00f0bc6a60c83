// The result of `dslide-bench rpc`.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "bench/rpc/rpc_cells.h"

namespace dslide::bench {

// Figures, how sure each is, the table of all cells, and where they were measured
// (docs/start/commands.md, "bench"). What was not measured is 0.
nlohmann::ordered_json DescribeCells(const RpcOptions& options, const std::vector<RpcCell>& cells,
                                     double foreign_load);

// The same for people, to stdout.
void PrintCells(const RpcOptions& options, const nlohmann::ordered_json& json);

}  // namespace dslide::bench
