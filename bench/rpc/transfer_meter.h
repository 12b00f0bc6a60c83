// Repeated transfers of one kind and size, and what they took.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dslide::bench {

// One window: requests for a while, in each lane one after the other.
struct TransferWindow {
  double gbps = 0;  // 1e9 payload bytes a second
  double p50_ms = 0;
  double p99_ms = 0;
  double client_cpu_s_per_gb = 0;
  double server_cpu_s_per_gb = 0;
};

// Requests of one kind and size; each moves `bytes`. There are as many in flight as lanes, whose
// functions are called from threads of their own.
struct TransferLanes {
  std::vector<std::function<absl::Status()>> requests;
  int64_t bytes = 0;
};

// Runs every lane for `seconds` and at least three times. `server` is the other process, 0 where
// there is none. Errors: those of a request.
absl::StatusOr<TransferWindow> MeasureWindow(const TransferLanes& lanes, double seconds,
                                             pid_t server);

// The medians over windows.
struct TransferResult {
  TransferWindow median;
  double spread = 0;  // of gbps: distance of the quartiles over the median
};
TransferResult Summarise(const std::vector<TransferWindow>& windows);

}  // namespace dslide::bench
