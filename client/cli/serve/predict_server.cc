#include "client/cli/serve/predict_server.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/system/listen_address.h"

namespace dslide::cli {
namespace {

// Requests of HTTP under way at one time: each holds a thread while it waits for its batch.
constexpr int kHttpThreads = 64;
// As large as a message of gRPC.
constexpr int64_t kHttpBodyBytes = 4 << 20;

absl::Status CheckSettings(const PredictServerOptions& options) {
  // Whatever is wrong with them is wrong use of this command.
  if (const absl::Status status = CheckServerOptions(options.server); !status.ok()) {
    return absl::InvalidArgumentError(status.message());
  }
  if (options.http.empty() || options.http_plaintext) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ListenAddress listen, ParseListenAddress(options.http));
  if (IsLocalOnly(listen)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--http ", options.http,
      ": other machines could connect, and HTTP is neither encrypted nor does it ask for "
      "certificates; listen on 127.0.0.1, or allow it with --http-plaintext (trusted networks, or "
      "behind a proxy that does both)"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PredictServer>> PredictServer::Start(const GlobalOptions& global,
                                                                    PredictServerOptions options) {
  RETURN_IF_ERROR(CheckSettings(options));
  std::unique_ptr<PredictServer> server(new PredictServer());
  options.model.on_health = [raw = server.get()](const absl::Status& health) {
    ServerRuntime* const runtime = raw->told_of_health_;
    if (runtime != nullptr) runtime->SetReady(health.ok(), std::string(health.message()));
  };
  server->model_ = std::make_unique<ServedModel>(global, options.model, server->metrics_);
  server->batcher_ = std::make_unique<PredictBatcher>(
      options.batcher,
      [model = server->model_.get()](absl::Span<const RankQuery* const> queries, RankOptions rank,
                                     absl::Duration deadline) {
        return model->Rank(queries, rank, deadline);
      },
      server->metrics_);
  server->service_ = std::make_unique<PredictServiceImpl>(options.service, *server->model_,
                                                          *server->batcher_, server->metrics_);
  server->metrics_.AddProcessMetrics();
  ServerHooks hooks;
  hooks.running_calls = [service = server->service_.get()] { return service->running_calls(); };
  hooks.after_shutdown = [raw = server.get()] { return raw->Stop(); };
  hooks.status = [raw = server.get()] { return raw->Page(); };
  ASSIGN_OR_RETURN(
      server->runtime_,
      ServerRuntime::Start(options.server, {{server->service_.get(), kPredictServiceName}},
                           server->metrics_, std::move(hooks)));
  RETURN_IF_ERROR(server->StartHttp(options));
  server->told_of_health_ = server->runtime_.get();
  return server;
}

absl::Status PredictServer::StartModel(std::function<void(const absl::Status&)> opened) {
  return model_->Start(std::move(opened));
}

absl::Status PredictServer::StartHttp(const PredictServerOptions& options) {
  if (options.http.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      http_, HttpServer::Start({.address = options.http,
                                .name = "predictions over http",
                                .handle = [service = service_.get()](
                                              const HttpCall& call) { return service->Http(call); },
                                .threads = kHttpThreads,
                                .max_body_bytes = kHttpBodyBytes,
                                .keep_alive = true}));
  return absl::OkStatus();
}

PredictServer::~PredictServer() {
  if (runtime_ != nullptr) {
    runtime_->Drain().IgnoreError();
  } else {
    Stop().IgnoreError();
  }
}

absl::Status PredictServer::Stop() {
  http_.reset();  // waits for its requests, which the batcher still answers
  if (batcher_ != nullptr) batcher_->Stop();
  return model_ == nullptr ? absl::OkStatus() : model_->Close();
}

std::string PredictServer::http_address() const { return http_ == nullptr ? "" : http_->address(); }

StatusPage PredictServer::Page() const {
  const std::shared_ptr<const OpenModel> model = model_->current();  // shared: see current()
  StatusPage page;
  if (model == nullptr) {
    page.facts = {{"Model", "not there yet"}};
    return page;
  }
  page.facts = {{"Model", model->model().spec.name},
                {"Labels", PageCount(static_cast<double>(model->num_labels()))},
                {"Features", PageCount(static_cast<double>(model->num_features()))},
                {"Predictions over HTTP", http_address()}};
  return page;
}

}  // namespace dslide::cli
