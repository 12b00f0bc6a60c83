// dslide serve

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/commands/command_line.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/terminal.h"
#include "client/cli/serve/predict_server.h"
#include "client/cli/serve/server_flags.h"
#include "core/base/status_macros.h"
#include "services/common/signal_waiter.h"

namespace dslide::cli {
namespace {

constexpr char kServeExamples[] =
    R"(It keeps no state: run as many of one model as there is work for, behind a load balancer.
SIGTERM drains it: its health turns to NOT_SERVING, what runs is finished, and it ends with 0.

Examples:
  dslide serve --model-dir my-model
  curl -d '{"queries": [{"text": "a web server"}], "top_k": 5}' http://127.0.0.1:7031/v1/predict
      The same from another terminal; http://127.0.0.1:7031 is a page to try texts.
  dslide serve --cluster 10.0.0.1:7000 --name my-model --listen :7030 --tls-cert serve.crt \
      --tls-key serve.key --tls-ca ca.crt
      Rows stay in the cluster, which asks for the role reader, as this server does of its callers.)";

constexpr int64_t kMostQueries = 1'000'000;
// Beyond it a batch only grows the time of everybody in it.
constexpr int64_t kMostAtOnce = 4096;

struct ServeOptions {
  PredictServerOptions server;
  ServerFlags flags;
  std::string mode = "exact";
  std::string batch_wait = "0s";
  std::string request_timeout = "30s";
  std::string refresh = "10s";
  std::string wait = "10m";
};

absl::Status ResolveServeOptions(const GlobalOptions& global, ServeOptions& options) {
  PredictServerOptions& server = options.server;
  RETURN_IF_ERROR(CheckRecall(server.model.model.recall));
  constexpr absl::Duration kLeast = absl::Milliseconds(1);
  RETURN_IF_ERROR(ReadDuration("--batch-wait", options.batch_wait, absl::ZeroDuration(),
                               server.batcher.max_wait));
  RETURN_IF_ERROR(ReadDuration("--request-timeout", options.request_timeout, kLeast,
                               server.service.request_timeout));
  RETURN_IF_ERROR(
      ReadDuration("--refresh", options.refresh, absl::Milliseconds(100), server.model.refresh));
  RETURN_IF_ERROR(
      ReadDuration("--wait", options.wait, absl::ZeroDuration(), server.model.patience));
  RETURN_IF_ERROR(ResolveServerFlags(global, "dslide serve", options.flags));
  server.server = options.flags.server;
  server.service.hashed_by_default = options.mode == "hashed";
  server.model.model.job = "serve";
  server.model.model.repeat = false;
  return absl::OkStatus();
}

void AnnounceServer(const GlobalOptions& global, PredictServer& server) {
  const std::string grpc = server.runtime().address();
  const std::string admin = server.runtime().admin_address();
  if (global.json()) {
    nlohmann::ordered_json json;
    json["model"] = server.spec().name;
    json["grpc"] = grpc;
    json["http"] = server.http_address();
    json["admin"] = admin;
    return PrintLine(json.dump());
  }
  PrintLine(absl::StrCat("Serving model \"", server.spec().name, "\" on ", grpc, " (gRPC)"));
  if (!server.http_address().empty()) {
    PrintLine(absl::StrCat("Page and JSON: http://", server.http_address()));
  }
  if (!admin.empty()) PrintLine(absl::StrCat("Health and metrics: http://", admin));
}

absl::StatusOr<int> RunServe(const GlobalOptions& global, ServeOptions& options) {
  SignalWaiter signals;  // before any thread
  RETURN_IF_ERROR(ResolveServeOptions(global, options));
  ASSIGN_OR_RETURN(const std::unique_ptr<PredictServer> server,
                   PredictServer::Start(global, options.server));
  absl::Status failure;  // of the thread that waits, which is over when the server has stopped
  RETURN_IF_ERROR(server->StartModel([&](const absl::Status& opened) {
    if (opened.ok()) return AnnounceServer(global, *server);
    failure = opened;
    signals.Trigger();
  }));
  const int code = ServeUntilSignal(server->runtime(), signals);
  RETURN_IF_ERROR(failure);
  return code;
}

}  // namespace

void AddServeCommand(CliCommand app, Context& context) {
  const CliCommand command =
      app.AddSubcommand("serve", "Answer predictions over gRPC and HTTP", kServeExamples);
  auto options = std::make_shared<ServeOptions>();  // shared with the callback
  PredictServerOptions& server = options->server;
  options->flags.server.listen = "127.0.0.1:7030";
  options->flags.server.admin = "127.0.0.1:7032";
  server.http = "127.0.0.1:7031";
  server.model.model.recall = 0.95;
  AddModelOptions(command, server.model.model);
  AddServerFlags(command, options->flags, "the role reader");
  AddOption(command, "--http", server.http,
            "HOST:PORT of HTTP/JSON and a page to try texts; empty: none");
  command.AddSwitch("--http-plaintext", server.http_plaintext,
                    "Allow --http where other machines can connect: it is plaintext and asks "
                    "nobody who he is");
  AddOption(command, "--mode", options->mode,
            "What requests get that name no mode: exact or hashed")
      .OneOf({"exact", "hashed"});
  AddOption(command, "--recall", server.model.model.recall,
            "Share of the exact labels that hashed requests have at least; the first 128 are "
            "answered exactly, to learn how many rows that takes. 0: as many as in training");
  AddOption(command, "--max-batch", server.batcher.max_batch, "Queries that are ranked together")
      .Range<int64_t>(1, kMostAtOnce);
  AddOption(command, "--batch-wait", options->batch_wait,
            "How long a query may wait for others while the batch is not full, e.g. 200us; nobody "
            "waits while nothing runs");
  AddOption(command, "--max-queue", server.batcher.max_queue,
            "Queries that may wait; more are refused with RESOURCE_EXHAUSTED or 429")
      .Range<int64_t>(1, kMostQueries);
  AddOption(command, "--request-timeout", options->request_timeout,
            "Deadline of requests that set none, and the latest of any");
  AddOption(command, "--refresh", options->refresh,
            "How often a cluster's model is looked at for changes of its shape, trees and fusion");
  AddOption(command, "--wait", options->wait,
            "How long a cluster and its model may take to be there: until then the server is alive "
            "and not ready; 0s: not at all");
  RunWhenChosen(command, context, options, RunServe);
}

}  // namespace dslide::cli
