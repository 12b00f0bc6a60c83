// Repeated transfers of one kind and size, and what they took.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dslide::bench {

// One window: requests one after the other for a while.
struct TransferWindow {
  double gbps = 0;  // 1e9 payload bytes a second
  double p50_ms = 0;
  double p99_ms = 0;
  double client_cpu_s_per_gb = 0;
  double server_cpu_s_per_gb = 0;
};

// Runs `request`, which moves `bytes`, for `seconds` and at least three times. `server` is the
// other process. Errors: those of the request.
absl::StatusOr<TransferWindow> MeasureWindow(const std::function<absl::Status()>& request,
                                             int64_t bytes, double seconds, pid_t server);

// The medians over windows.
struct TransferResult {
  TransferWindow median;
  double spread = 0;  // of gbps: distance of the quartiles over the median
};
TransferResult Summarise(const std::vector<TransferWindow>& windows);

}  // namespace dslide::bench
