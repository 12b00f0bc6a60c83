#include "bench/rpc/transfer_meter.h"

#include <chrono>
#include <thread>

#include "bench/common/foreign_load.h"
#include "bench/common/statistics.h"
#include "core/base/status_macros.h"

namespace dslide::bench {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What one lane did in a window.
struct LaneRun {
  std::vector<double> latencies_ms;
  absl::Status status;
};

void RunLane(const std::function<absl::Status()>& request, Clock::time_point start, double seconds,
             LaneRun& run) {
  while (run.status.ok() && (run.latencies_ms.size() < 3 || SecondsSince(start) < seconds)) {
    const Clock::time_point begin = Clock::now();
    run.status = request();
    run.latencies_ms.push_back(1e3 * SecondsSince(begin));
  }
}

}  // namespace

absl::StatusOr<TransferWindow> MeasureWindow(const TransferLanes& lanes, double seconds,
                                             pid_t server) {
  // The window before may have left other memory in the caches.
  for (const auto& request : lanes.requests) RETURN_IF_ERROR(request());
  std::vector<LaneRun> runs(lanes.requests.size());
  const double client_before = ProcessorSeconds(0);
  const auto server_seconds = [server] { return server == 0 ? 0.0 : ProcessorSeconds(server); };
  const double server_before = server_seconds();
  const Clock::time_point start = Clock::now();
  std::vector<std::thread> others;
  for (size_t i = 1; i < runs.size(); ++i) {
    others.emplace_back([&, i] { RunLane(lanes.requests[i], start, seconds, runs[i]); });
  }
  RunLane(lanes.requests[0], start, seconds, runs[0]);
  for (std::thread& other : others) other.join();
  const double elapsed = SecondsSince(start);
  std::vector<double> latencies_ms;
  for (const LaneRun& run : runs) {
    RETURN_IF_ERROR(run.status);
    latencies_ms.insert(latencies_ms.end(), run.latencies_ms.begin(), run.latencies_ms.end());
  }
  const double gigabytes = 1e-9 * static_cast<double>(lanes.bytes) * double(latencies_ms.size());
  TransferWindow window;
  window.gbps = gigabytes / elapsed;
  window.p50_ms = Quantile(latencies_ms, 0.5);
  window.p99_ms = Quantile(latencies_ms, 0.99);
  window.client_cpu_s_per_gb = (ProcessorSeconds(0) - client_before) / gigabytes;
  window.server_cpu_s_per_gb = (server_seconds() - server_before) / gigabytes;
  return window;
}

}  // namespace dslide::bench
