// A coordinator that serves: state, store, gRPC and admin page in one object.

#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/clock.h"
#include "core/net/metrics/metrics.h"
#include "services/common/files/disk_reserve.h"
#include "services/common/server/server_runtime.h"
#include "services/common/server/transport.h"
#include "services/coordinator/control/coordinator.h"
#include "services/coordinator/operations/operations.h"
#include "services/coordinator/rpc/coordinator_service.h"

namespace dslide::coordinator {

struct CoordinatorServerOptions {
  ServerOptions server = {};
  CoordinatorOptions coordinator = {};
  // Where models, generations and topology are kept; "" for memory only.
  std::string data_dir = {};
  // Kept on its volume for a full disk (disk_reserve.h); 0: none.
  int64_t disk_reserve_bytes = 0;
  OperationLimits operations = {};
  // How shards are reached; null: over the network, with the certificates of
  // `server.tls` or in plaintext as `server.insecure` allows.
  ServiceChannelFactory channels = nullptr;
  // Outlives the server.
  const Clock* clock = &SteadyClock();
  // Labels on every series, for several services in one process.
  MetricLabels metric_labels = {};
};

// Thread safety: safe from any thread.
class CoordinatorServer {
 public:
  // Errors: those of ServerRuntime::Start; for the data directory DataLoss, always (with the cause
  // and the remedy), so that callers can tell it from addresses.
  static absl::StatusOr<std::unique_ptr<CoordinatorServer>> Start(CoordinatorServerOptions options);

  // Drains.
  ~CoordinatorServer();

  ServerRuntime& runtime() { return *runtime_; }
  Coordinator& coordinator() { return *coordinator_; }
  const Metrics& metrics() const { return *metrics_; }
  // Adds process_* and dslide_build_info to the page: once per process.
  void AddProcessMetrics() { metrics_->AddProcessMetrics(); }

 private:
  CoordinatorServer() = default;

  // In the order of construction: later ones use earlier ones.
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<DiskReserve> reserve_;  // null without a data directory
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<Operations> operations_;
  std::unique_ptr<CoordinatorServiceImpl> service_;
  std::unique_ptr<ServerRuntime> runtime_;
};

}  // namespace dslide::coordinator
