// What clients learn from the coordinator, without its wire form.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/protocol/cluster_map.h"
#include "core/protocol/cluster_status.h"
#include "core/protocol/job_work.h"

namespace dslide {

// What a call does while it waits for an operation, about four times a second.
struct OperationWatch {
  std::function<void(const OperationStatus&)> on_progress = nullptr;
  // True: the operation is cancelled, and the call returns what came of it: Cancelled, or its
  // result where it was too late.
  std::function<bool()> stop_requested = nullptr;
};

// What a cluster was taken back to.
struct RestoredCheckpoint {
  uint64_t checkpoint_id = 0;
  std::vector<uint64_t> skipped;  // newer ones that are known to be damaged
};

}  // namespace dslide
