// Repeated transfers of one kind and size, and what they took.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/common/statistics.h"

namespace dslide::bench {

// One window: requests for a while, in each lane one after the other.
struct TransferWindow {
  double gbps = 0;  // 1e9 payload bytes a second
  double p50_ms = 0;
  double p99_ms = 0;
  double client_cpu_s_per_gb = 0;
  double server_cpu_s_per_gb = 0;

  double CpuSecondsPerGb() const { return client_cpu_s_per_gb + server_cpu_s_per_gb; }
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

// The median over windows of one of their fields or of CpuSecondsPerGb().
template <typename Member>
MedianEstimate EstimateOver(const std::vector<TransferWindow>& windows, Member member) {
  std::vector<double> values;
  for (const TransferWindow& window : windows) values.push_back(std::invoke(member, window));
  return EstimateMedian(std::move(values));
}

}  // namespace dslide::bench
