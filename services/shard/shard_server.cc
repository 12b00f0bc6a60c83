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
  // Before rows are loaded, which may take minutes.
  ASSIGN_OR_RETURN(options.server.tls_store, OpenTls(options.server.tls));
  std::unique_ptr<ShardServer> server(new ShardServer(std::move(options)));
  server->metrics_ = std::make_unique<Metrics>(server->options_.metric_labels);
  server->shard_metrics_ = std::make_unique<ShardMetrics>(*server->metrics_, *server->stages_);
  server->core_ =
      std::make_unique<ShardCore>(ResolvedCore(server->options_, server->stages_.get()));
  RETURN_IF_ERROR(server->OpenDirectory());
  server->MakeSequencer();
  RETURN_IF_ERROR(server->BeginLog());
  server->OpenCheckpoints();
  RETURN_IF_ERROR(server->StartServing());
  server->Join();
  return server;
}

ShardServer::~ShardServer() {
  if (runtime_ != nullptr) runtime_->Drain().IgnoreError();
}

absl::Status ShardServer::OpenDirectory() {
  if (options_.data_dir.empty()) return absl::OkStatus();
  StateDirectoryOptions options{
      .path = options_.data_dir,
      .durability = options_.durability,
      .shard_id = options_.shard_id,
      .write_latest = options_.write_latest,
      .disk_reserve_bytes = options_.disk_reserve_bytes,
      .clock = options_.clock,
      .core = [this] { return ResolvedCore(options_, stages_.get()); },
      .on_image = [metrics =
                       shard_metrics_.get()](absl::Duration took) { metrics->RecordImage(took); },
      .on_written =
          [this] {
            // Refused only while the shard stops, which ends the image itself.
            sequencer_->SubmitTask([this](ShardCore& core) { durable()->MaybeTakeImage(core); })
                .IgnoreError();
          }};
  ASSIGN_OR_RETURN(directory_, StateDirectory::Open(std::move(options), *metrics_, core_));
  return absl::OkStatus();
}

void ShardServer::MakeSequencer() {
  shard_metrics_->PublishSizes(*core_);
  SequencerLog log;
  if (durable() != nullptr) {
    log = {.log = &durable()->log(),
           .answers_wait = options_.durability.mode == Durability::kLog,
           .after_logged = [this](ShardCore& core) { durable()->MaybeTakeImage(core); }};
  }
  sequencer_ = std::make_unique<Sequencer>(*core_, options_.queue, *shard_metrics_, *options_.clock,
                                           std::move(log));
  const bool resumed = directory_ != nullptr && directory_->resumed();
  admission_ = std::make_unique<ClientAdmission>(sequencer_.get(), resumed);
}

absl::Status ShardServer::BeginLog() {
  if (durable() == nullptr) return absl::OkStatus();
  CommandLogHooks hooks;
  hooks.on_durable = [this](uint64_t lsn) { sequencer_->OnDurable(lsn); };
  hooks.on_sync = [this](absl::Duration duration) { shard_metrics_->RecordLogSync(duration); };
  hooks.on_failed = [this](const absl::Status& why) { OnLogFailed(why); };
  const CoreLimits limits = ResolvedCore(options_, stages_.get());
  const absl::Status begun = sequencer_->RunTask(
      [&](ShardCore& core) { return durable()->Begin(std::move(hooks), limits, core); });
  if (!begun.ok()) return directory_->Explained(begun);
  durable_gauges_ =
      std::make_unique<DurableGauges>(*metrics_, *durable(), options_.data_dir, *options_.clock);
  return absl::OkStatus();
}

void ShardServer::OpenCheckpoints() {
  if (directory_ == nullptr) return;
  images_ = std::make_unique<DiskImages>(&directory_->images(), options_.clock);
  ParticipantHooks hooks;
  hooks.settle = [this](ShardCore& core) -> absl::StatusOr<uint64_t> {
    if (durable() != nullptr) return durable()->SettleTables(core);
    core.SettleTables();
    return 0;
  };
  if (durable() != nullptr) {
    hooks.rows_replaced = [this](ShardCore& core) { return KeepReplacedRows(core); };
  }
  hooks.on_broken = [this](const absl::Status& why) { OnLogFailed(why); };
  hooks.on_rolled_back = [this] { admission_->OnRolledBack(); };
  hooks.make_core = [this] { return ShardCore(ResolvedCore(options_, stages_.get())); };
  participant_ =
      std::make_unique<CheckpointParticipant>(sequencer_.get(), images_.get(), std::move(hooks));
}

absl::Status ShardServer::StartServing() {
  ShardServiceOptions service{.limits = options_.limits,
                              .max_message_bytes = kProtocolMessageBytes,
                              .job_cluster = options_.server.tls.job_cluster()};
  if (durable() != nullptr) {
    service.log_commands = true;
    service.rows_replaced = [this](ShardCore& core) { return KeepReplacedRows(core); };
  }
  service_ = std::make_unique<ShardServiceImpl>(
      std::move(service), sequencer_.get(), shard_metrics_.get(),
      directory_ == nullptr ? nullptr : &directory_->checkpoints(), participant_.get(),
      images_.get(), metrics_.get(), options_.clock);
  ASSIGN_OR_RETURN(runtime_,
                   ServerRuntime::Start(options_.server, {{service_.get(), kShardServiceName}},
                                        *metrics_, MakeServerHooks()));
  return absl::OkStatus();
}

ServerHooks ShardServer::MakeServerHooks() {
  ServerHooks hooks;
  hooks.before_shutdown = [this] {
    if (membership_ != nullptr) membership_->Stop();
    service_->StopStreams();
    // Nobody waits for the cut of a cluster checkpoint, which may never come.
    sequencer_->DisableGate();
  };
  hooks.running_calls = [this] { return service_->running_calls(); };
  hooks.after_shutdown = [this] {
    sequencer_->Stop();
    // A newer owner's rows are the ones that count; and what a failed log has not confirmed is not
    // to be seen.
    if (directory_ == nullptr || readiness_.fenced()) return absl::OkStatus();
    return directory_->WriteAtStop(*core_);
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
                                                                       .sequencer = *sequencer_,
                                                                       .admission = *admission_,
                                                                       .service = *service_,
                                                                       .metrics = *shard_metrics_,
                                                                       .readiness = readiness_},
                                                  std::move(loaded));
}

void ShardServer::OnLogFailed(const absl::Status& why) {
  sequencer_->OnLogFailed(why);
  shard_metrics_->RecordLogFailed();
  readiness_.Fence(why.message());
  if (options_.on_fenced) options_.on_fenced();
}

absl::Status ShardServer::KeepReplacedRows(ShardCore& core) {
  absl::Status kept = durable()->ForceImage(core);
  // The log does not know of these rows: what it would replay after a crash are other ones.
  if (!kept.ok()) OnLogFailed(kept);
  return kept;
}

StatusPage ShardServer::Status() const {
  const ShardIdentity identity = readiness_.identity();
  StatusPage page;
  page.facts = {{"Shard", identity.shard.value() < 0 ? "not numbered yet"
                                                     : absl::StrCat(identity.shard.value())},
                {"Generation", absl::StrCat(identity.generation)},
                {"Address", identity.address.empty() ? "none" : identity.address},
                {"Coordinator", options_.coordinator.empty() ? "none" : options_.coordinator},
                {"Clients", admission_->waiting() ? "wait for a restore" : "served"},
                {"Durability", DurabilityName(options_.durability.mode)},
                {"Data directory", options_.data_dir.empty() ? "none" : options_.data_dir}};
  const absl::StatusOr<MetricsText> figures = MetricsText::Parse(metrics_->Expose());
  if (figures.ok()) AddShardFigures(*figures, page);
  return page;
}

}  // namespace dslide::shard
