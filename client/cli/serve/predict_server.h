// A server of predictions: model, batcher, gRPC, HTTP, and their orderly stop.

#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/console/global_options.h"
#include "client/cli/serve/predict_batcher.h"
#include "client/cli/serve/predict_service.h"
#include "client/cli/serve/served_model.h"
#include "core/net/http/http_server.h"
#include "core/net/metrics/metrics.h"
#include "services/common/server/server_runtime.h"

namespace dslide::cli {

struct PredictServerOptions {
  ServerOptions server;
  // "host:port" of HTTP/JSON and the page; "": none.
  std::string http;
  // Allows it where other machines can connect: it is plaintext and asks nobody who he is.
  bool http_plaintext = false;
  ServedModelOptions model;
  BatcherOptions batcher;
  PredictServiceOptions service;
};

// Thread safety: one thread.
class PredictServer {
 public:
  // Listens, alive but not ready. `global` outlives the result. Errors: those of
  // ServerRuntime::Start(); InvalidArgument for settings that do not fit together, or plaintext
  // that others could reach.
  static absl::StatusOr<std::unique_ptr<PredictServer>> Start(const GlobalOptions& global,
                                                              PredictServerOptions options);
  // Drains.
  ~PredictServer();

  // As ServedModel::Start(). It is ready as soon as the model is open.
  absl::Status StartModel(std::function<void(const absl::Status&)> opened = nullptr);

  ServerRuntime& runtime() { return *runtime_; }
  std::string http_address() const;
  // Of an open model.
  ModelSpec spec() const { return model_->current()->model().spec; }

 private:
  PredictServer() = default;
  absl::Status StartHttp(const PredictServerOptions& options);
  // No call of gRPC runs any more.
  absl::Status Stop();
  StatusPage Page() const;

  std::atomic<ServerRuntime*> told_of_health_ = nullptr;  // runtime_, once it serves
  Metrics metrics_;
  std::unique_ptr<ServedModel> model_;
  std::unique_ptr<PredictBatcher> batcher_;
  std::unique_ptr<PredictServiceImpl> service_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<ServerRuntime> runtime_;
};

}  // namespace dslide::cli
