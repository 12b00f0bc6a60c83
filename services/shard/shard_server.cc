#include "services/shard/shard_server.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "services/shard/metrics/shard_page.h"

namespace dslide::shard {

ShardServer::ShardServer(ShardServerOptions options)
    : options_(std::move(options)), stages_(std::make_unique<StageTimes>(*options_.clock)) {}

absl::StatusOr<std::unique_ptr<ShardServer>> ShardServer::Start(ShardServerOptions options) {
  RETURN_IF_ERROR(CheckShardServerOptions(options));
  ResolveBudgets(options);
  // Before rows are loaded, which may take minutes.
  ASSIGN_OR_RETURN(options.server.tls_store, OpenTls(options.server.tls));
  std::unique_ptr<ShardServer> server(new ShardServer(std::move(options)));
  server->metrics_ = std::make_unique<Metrics>(server->options_.metric_labels);
  server->shard_metrics_ = std::make_unique<ShardMetrics>(*server->metrics_, *server->stages_);
  RETURN_IF_ERROR(server->OpenPage());
  RETURN_IF_ERROR(server->MakeShard());
  RETURN_IF_ERROR(server->BeginLog());
  RETURN_IF_ERROR(server->StartServing());
  server->Join();
  return server;
}

ShardServer::~ShardServer() {
  if (runtime_ != nullptr) runtime_->Drain().IgnoreError();
}

absl::Status ShardServer::OpenPage() {
  // Probes find it alive, and people how far it is.
  ASSIGN_OR_RETURN(page_,
                   AdminPage::Open(options_.server.binary, options_.server.admin, *metrics_));
  page_->SetReason([this] { return loading_.Describe(); });
  return absl::OkStatus();
}

absl::Status ShardServer::OpenDirectory(std::unique_ptr<ShardCore>& core) {
  if (options_.data_dir.empty() && options_.rows_from.empty()) return absl::OkStatus();
  StateDirectoryOptions options{.path = options_.data_dir,
                                .rows_from = options_.rows_from,
                                .durability = options_.durability,
                                .shard_id = options_.shard_id,
                                .write_latest = options_.write_latest,
                                .disk_reserve_bytes = options_.disk_reserve_bytes,
                                .clock = options_.clock,
                                .core = [this] { return Core(); }};
  ASSIGN_OR_RETURN(directory_, StateDirectory::Open(std::move(options), *metrics_, core));
  if (directory_->images() != nullptr) {
    images_ = std::make_unique<CheckpointImages>(directory_->images(), options_.clock);
  }
  return absl::OkStatus();
}

absl::Status ShardServer::MakeShard() {
  auto core = std::make_unique<ShardCore>(Core());
  RETURN_IF_ERROR(OpenDirectory(core));
  ShardRuntimeOptions options{.queue = options_.queue,
                              .durability = options_.durability.mode,
                              .knows_clients = directory_ != nullptr && directory_->resumed(),
                              .core = [this] { return Core(); },
                              .on_broken =
                                  [this](const absl::Status& why) {
                                    readiness_.Fence(why.message());
                                    if (options_.on_fenced) options_.on_fenced();
                                  }};
  shard_ = std::make_unique<ShardRuntime>(ShardRuntimeParts{.core = std::move(core),
                                                            .durable = durable(),
                                                            .images = images_.get(),
                                                            .metrics = *shard_metrics_,
                                                            .clock = *options_.clock},
                                          std::move(options));
  return absl::OkStatus();
}

absl::Status ShardServer::BeginLog() {
  if (durable() == nullptr) return absl::OkStatus();
  const absl::Status begun = shard_->Begin();
  if (!begun.ok()) return directory_->Explained(begun);
  durable_gauges_ =
      std::make_unique<DurableGauges>(*metrics_, *durable(), options_.data_dir, *options_.clock);
  return absl::OkStatus();
}

absl::Status ShardServer::StartServing() {
  ShardServiceOptions service{
      .limits = options_.limits,
      .max_message_bytes = kProtocolMessageBytes,
      .job_cluster = options_.server.tls.job_cluster(),
      .log_commands = durable() != nullptr,
      .rows_replaced = [this](ShardCore& core) { return shard_->KeepReplacedRows(core); }};
  service_ = std::make_unique<ShardServiceImpl>(
      std::move(service), &shard_->sequencer(), shard_metrics_.get(),
      directory_ == nullptr ? nullptr : directory_->checkpoints(), shard_->participant(),
      images_.get(), metrics_.get(), options_.clock);
  ASSIGN_OR_RETURN(runtime_,
                   ServerRuntime::Start(options_.server, {{service_.get(), kShardServiceName}},
                                        *metrics_, MakeServerHooks(), std::move(page_)));
  return absl::OkStatus();
}

ServerHooks ShardServer::MakeServerHooks() {
  ServerHooks hooks;
  hooks.before_shutdown = [this] {
    if (membership_ != nullptr) membership_->Stop();
    service_->StopStreams();
    // Nobody waits for the cut of a cluster checkpoint, which may never come.
    shard_->sequencer().DisableGate();
  };
  hooks.running_calls = [this] { return service_->running_calls(); };
  hooks.after_shutdown = [this] {
    shard_->sequencer().Stop();
    // A newer owner's rows are the ones that count; and what a failed log has not confirmed is not
    // to be seen.
    if (directory_ == nullptr || readiness_.fenced()) return absl::OkStatus();
    return directory_->WriteAtStop(shard_->core());
  };
  hooks.status = [this] { return Status(); };
  return hooks;
}

void ShardServer::Join() {
  LoadedRows loaded;
  if (directory_ != nullptr) {
    loaded.shard = directory_->shard();
    // Rows that may be old count as none: the coordinator restores a cluster checkpoint.
    if (!directory_->stale()) loaded.models = directory_->models();
  }
  membership_ = std::make_unique<ShardMembership>(ShardMembershipParts{.options = options_,
                                                                       .runtime = *runtime_,
                                                                       .shard = *shard_,
                                                                       .service = *service_,
                                                                       .metrics = *shard_metrics_,
                                                                       .readiness = readiness_},
                                                  std::move(loaded));
}

StatusPage ShardServer::Status() const {
  const ShardIdentity identity = readiness_.identity();
  StatusPage page;
  page.facts = {{"Shard", identity.shard.value() < 0 ? "not numbered yet"
                                                     : absl::StrCat(identity.shard.value())},
                {"Generation", absl::StrCat(identity.generation)},
                {"Address", identity.address.empty() ? "none" : identity.address},
                {"Coordinator", options_.coordinator.empty() ? "none" : options_.coordinator},
                {"Clients", shard_->admission().waiting() ? "wait for a restore" : "served"},
                {"Durability", DurabilityName(options_.durability.mode)},
                {"Data directory", options_.data_dir.empty() ? "none" : options_.data_dir}};
  const absl::StatusOr<MetricsText> figures = MetricsText::Parse(metrics_->Expose());
  if (figures.ok()) AddShardFigures(*figures, page);
  return page;
}

}  // namespace dslide::shard
