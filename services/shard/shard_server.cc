#include "services/shard/shard_server.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/failpoint.h"
#include "core/base/listen_address.h"
#include "core/base/log.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/metrics/metrics_text.h"
#include "core/wire/logged_command.h"
#include "core/wire/reason_words.h"
#include "services/common/admin_address.h"
#include "services/common/durable_files.h"
#include "services/shard/shard_page.h"
#include "services/shard/stop_state.h"

namespace dslide::shard {
namespace {

constexpr char kWaiting[] = "waiting for the coordinator";

int64_t MachineMemoryBytes() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
}

ShardCoreOptions Resolved(ShardCoreOptions core, StageTimes* stages) {
  core.stages = stages;
  if (core.parallelism.threads <= 0) {
    core.parallelism.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  if (core.memory_bytes <= 0) core.memory_bytes = MachineMemoryBytes() / 10 * 9;
  return core;
}

absl::Status DataDirError(const std::string& data_dir, const absl::Status& status) {
  return absl::DataLossError(absl::StrCat("data directory ", data_dir, ": ", status.message()));
}

// There from a clean stop to the next start.
std::string StopPath(const std::string& data_dir) { return absl::StrCat(data_dir, "/STOPPED"); }

// Under which clients reach the shard.
std::string AddressForClients(const ShardServerOptions& options, const ServerRuntime& runtime) {
  return options.advertise.empty() ? runtime.address() : options.advertise;
}

// True for "every interface", which is no address to send clients to.
bool IsWildcard(const ListenAddress& address) {
  return !address.is_unix &&
         (address.host.empty() || address.host == "0.0.0.0" || address.host == "::");
}

}  // namespace

absl::Status CheckShardServerOptions(const ShardServerOptions& options) {
  RETURN_IF_ERROR(CheckServerOptions(options.server));
  if (!(options.capacity_weight > 0.0) || !std::isfinite(options.capacity_weight)) {
    return absl::InvalidArgumentError(absl::StrCat("capacity-weight is ", options.capacity_weight,
                                                   ", must be a finite number above 0"));
  }
  if (options.durability.mode != Durability::kCheckpoint && options.data_dir.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("durability ",
                                                   DurabilityName(options.durability.mode),
                                                   " needs a data directory: set data-dir"));
  }
  if (options.coordinator.empty()) return absl::OkStatus();
  if (options.channels == nullptr) {
    RETURN_IF_ERROR(ParseListenAddress(options.coordinator).status());
  }
  if (!options.advertise.empty() || options.server.listen.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ListenAddress listen, ParseListenAddress(options.server.listen));
  if (!IsWildcard(listen)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("listen is ", options.server.listen,
                   ", every interface: set advertise to the HOST:PORT under which clients reach "
                   "this shard"));
}

ShardServer::ShardServer(ShardServerOptions options)
    : options_(std::move(options)), stages_(std::make_unique<StageTimes>(*options_.clock)) {}

absl::StatusOr<std::unique_ptr<ShardServer>> ShardServer::Start(ShardServerOptions options) {
  RETURN_IF_ERROR(CheckShardServerOptions(options));
  // Before rows are loaded, which may take minutes.
  ASSIGN_OR_RETURN(options.server.tls_store, OpenTls(options.server.tls));
  std::unique_ptr<ShardServer> server(new ShardServer(std::move(options)));
  const ShardServerOptions& own = server->options_;
  server->metrics_ = std::make_unique<Metrics>(own.metric_labels);
  server->shard_metrics_ = std::make_unique<ShardMetrics>(*server->metrics_, *server->stages_);
  server->core_ = std::make_unique<ShardCore>(Resolved(own.core, server->stages_.get()));
  if (const absl::Status loaded = server->LoadState(); !loaded.ok()) {
    return DataDirError(own.data_dir, loaded);
  }
  RETURN_IF_ERROR(server->StartServing());
  server->StartLink();
  return server;
}

ShardServer::~ShardServer() {
  if (runtime_ != nullptr) runtime_->Drain().IgnoreError();
}

absl::Status ShardServer::LoadState() {
  if (options_.data_dir.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(store_, CheckpointStore::Open(options_.data_dir));
  reserve_ = DiskReserve::Open(options_.data_dir, {.bytes = options_.disk_reserve_bytes});
  reserve_->AddMetrics(*metrics_);
  if (DurableState::Exists(options_.data_dir)) return RestoreLogged();
  RETURN_IF_ERROR(LoadCheckpoints());
  RETURN_IF_ERROR(TakeStopState());
  if (!logs()) return absl::OkStatus();
  ASSIGN_OR_RETURN(durable_, DurableState::Create(options_.data_dir, DurableOptions(), *core_));
  return absl::OkStatus();
}

DurableStateOptions ShardServer::DurableOptions() {
  return {.durability = options_.durability,
          .reserve = reserve_.get(),
          .clock = options_.clock,
          .on_image =
              [metrics = shard_metrics_.get()](absl::Duration took) { metrics->RecordImage(took); },
          .on_written =
              [this] {
                // Refused only while the shard stops, which ends the image itself.
                sequencer_->SubmitTask([this](ShardCore& core) { durable_->MaybeTakeImage(core); })
                    .IgnoreError();
              }};
}

absl::Status ShardServer::TakeStopState() {
  const std::string path = StopPath(options_.data_dir);
  const absl::StatusOr<std::string> bytes = ReadFile(path);
  if (absl::IsNotFound(bytes.status())) {
    stale_ = true;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(bytes.status());
  RETURN_IF_ERROR(DecodeStopState(path, *bytes, *core_));
  DSLIDE_FAILPOINT("shard.stop.taken");
  core_->SetLimits(Resolved(options_.core, stages_.get()));
  resumed_ = true;
  // From here on the rows may change: a crash would make it a lie.
  RETURN_IF_ERROR(RemoveAll(path));
  DSLIDE_FAILPOINT("shard.stop.removed");
  return SyncDirectory(options_.data_dir);
}

absl::Status ShardServer::WriteStopState() const {
  return ReplaceFile(StopPath(options_.data_dir), EncodeStopState(*core_));
}

absl::Status ShardServer::LoadCheckpoints() {
  ASSIGN_OR_RETURN(const std::vector<std::string> models, store_->ModelsWith(kLatestCheckpoint));
  for (const std::string& name : models) {
    const absl::Duration start = options_.clock->Now();
    ASSIGN_OR_RETURN(std::unique_ptr<ShardModel> model,
                     store_->Load(*core_, name, kLatestCheckpoint));
    RETURN_IF_ERROR(Remember(*model));
    LogInfo("model loaded", {{"model", name},
                             {"shard", loaded_shard_},
                             {"bytes", model->memory_bytes()},
                             {"duration", absl::FormatDuration(options_.clock->Now() - start)}});
    core_->InstallModel(std::move(model));
  }
  return absl::OkStatus();
}

absl::Status ShardServer::Remember(const ShardModel& model) {
  const int32_t shard = model.shard().value();
  const int32_t wanted = loaded_shard_ >= 0 ? loaded_shard_ : options_.shard_id;
  if (wanted >= 0 && shard != wanted) {
    return StatusWithReason(
        absl::StatusCode::kFailedPrecondition, reason::kSlotsDiffer,
        absl::StrCat("model \"", model.spec().name, "\" in it is of shard ", shard,
                     ", this is shard ", wanted, ": each shard has a data directory of its own"));
  }
  loaded_shard_ = shard;
  loaded_.push_back(model.spec());
  return absl::OkStatus();
}

absl::Status ShardServer::RestoreLogged() {
  const ShardCoreOptions core = Resolved(options_.core, stages_.get());
  absl::StatusOr<std::unique_ptr<DurableState>> restored = DurableState::Restore(
      options_.data_dir, DurableOptions(), [&core] { return std::make_unique<ShardCore>(core); },
      &core_);
  if (absl::IsDataLoss(restored.status())) {
    return absl::DataLossError(absl::StrCat(
        "the command log or its images are damaged: ", restored.status().message(),
        "; restore the directory from a copy, or remove its command_log to go back to the last "
        "checkpoint"));
  }
  RETURN_IF_ERROR(restored.status());
  durable_ = *std::move(restored);
  for (const auto& [name, model] : core_->models()) RETURN_IF_ERROR(Remember(*model));
  if (!logs()) return TakeOverLogged();
  resumed_ = true;
  return absl::OkStatus();
}

absl::Status ShardServer::TakeOverLogged() {
  ASSIGN_OR_RETURN(const std::vector<std::string> before, store_->ModelsWith(kLatestCheckpoint));
  for (const auto& [name, model] : core_->models()) {
    RETURN_IF_ERROR(store_->Write(*model, kLatestCheckpoint).status());
  }
  for (const std::string& name : before) {
    if (core_->FindModel(name) == nullptr) {
      RETURN_IF_ERROR(store_->Remove(name, kLatestCheckpoint));
    }
  }
  // Only now: until here, another start would find everything as it was.
  durable_ = nullptr;
  RETURN_IF_ERROR(DurableState::Remove(options_.data_dir));
  LogWarning(
      "durability is checkpoint: the state of the command log was written as checkpoints, "
      "and the log removed",
      {{"data_dir", options_.data_dir}});
  // The clients' numbers are gone, as after every start in this mode.
  auto fresh = std::make_unique<ShardCore>(Resolved(options_.core, stages_.get()));
  core_ = std::move(fresh);
  loaded_.clear();
  return LoadCheckpoints();
}

absl::Status ShardServer::BeginLog() {
  if (durable_ == nullptr) return absl::OkStatus();
  CommandLogHooks hooks;
  hooks.on_durable = [this](uint64_t lsn) { sequencer_->OnDurable(lsn); };
  hooks.on_sync = [this](absl::Duration duration) { shard_metrics_->RecordLogSync(duration); };
  hooks.on_failed = [this](const absl::Status& why) { OnLogFailed(why); };
  const CoreLimits limits = Resolved(options_.core, stages_.get());
  const absl::Status begun = sequencer_->RunTask(
      [&](ShardCore& core) { return durable_->Begin(std::move(hooks), limits, core); });
  return begun.ok() ? begun : DataDirError(options_.data_dir, begun);
}

absl::Status ShardServer::OpenCheckpoints() {
  if (store_ == nullptr) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<DiskImages>> images =
      DiskImages::Open(options_.data_dir, options_.clock);
  if (!images.ok()) return DataDirError(options_.data_dir, images.status());
  images_ = *std::move(images);
  ParticipantHooks hooks;
  hooks.settle = [this](ShardCore& core) -> absl::StatusOr<uint64_t> {
    if (durable_ != nullptr) return durable_->SettleTables(core);
    core.SettleTables();
    return 0;
  };
  if (durable_ != nullptr) {
    hooks.rows_replaced = [this](ShardCore& core) { return KeepReplacedRows(core); };
  }
  hooks.on_broken = [this](const absl::Status& why) { OnLogFailed(why); };
  hooks.on_rolled_back = [this] { admission_->OnRolledBack(); };
  hooks.make_core = [this] { return ShardCore(Resolved(options_.core, stages_.get())); };
  participant_ =
      std::make_unique<CheckpointParticipant>(sequencer_.get(), images_.get(), std::move(hooks));
  return absl::OkStatus();
}

absl::Status ShardServer::StartServing() {
  shard_metrics_->PublishSizes(*core_);
  SequencerLog log;
  ShardServiceOptions service{.limits = options_.limits,
                              .max_message_bytes = kProtocolMessageBytes,
                              .job_cluster = options_.server.tls.job_cluster()};
  if (durable_ != nullptr) {
    log = {.log = &durable_->log(),
           .answers_wait = options_.durability.mode == Durability::kLog,
           .after_logged = [this](ShardCore& core) { durable_->MaybeTakeImage(core); }};
    service.log_commands = true;
    service.rows_replaced = [this](ShardCore& core) { return KeepReplacedRows(core); };
  }
  sequencer_ = std::make_unique<Sequencer>(*core_, options_.queue, *shard_metrics_, *options_.clock,
                                           std::move(log));
  admission_ = std::make_unique<ClientAdmission>(sequencer_.get(), resumed_);
  RETURN_IF_ERROR(BeginLog());
  if (durable_ != nullptr) {
    durable_gauges_ =
        std::make_unique<DurableGauges>(*metrics_, *durable_, options_.data_dir, *options_.clock);
  }
  RETURN_IF_ERROR(OpenCheckpoints());
  service_ = std::make_unique<ShardServiceImpl>(
      std::move(service), sequencer_.get(), shard_metrics_.get(), store_.get(), participant_.get(),
      images_.get(), metrics_.get(), options_.clock);
  ServerHooks hooks;
  hooks.before_shutdown = [this] {
    if (link_ != nullptr) link_->Stop();
    service_->StopStreams();
    // Nobody waits for the cut of a cluster checkpoint, which may never come.
    sequencer_->StopHolding();
  };
  hooks.running_calls = [this] { return service_->running_calls(); };
  hooks.after_shutdown = [this] {
    sequencer_->Stop();
    return WriteAtStop();
  };
  hooks.status = [this] { return Status(); };
  ASSIGN_OR_RETURN(runtime_,
                   ServerRuntime::Start(options_.server, {{service_.get(), kShardServiceName}},
                                        *metrics_, std::move(hooks)));
  return absl::OkStatus();
}

void ShardServer::StartLink() {
  const int32_t wanted = options_.shard_id >= 0 ? options_.shard_id : loaded_shard_;
  if (options_.coordinator.empty()) {
    // Nobody mints generations here: the time of the start grows from process to process.
    OnOwned(ShardId(wanted), static_cast<uint64_t>(absl::ToUnixMicros(absl::Now())),
            /*rollback_pending=*/false);
    return;
  }
  runtime_->SetReady(false, kWaiting);
  CoordinatorLinkHooks hooks;
  hooks.on_owned = [this](ShardId shard, uint64_t generation, bool rollback_pending) {
    OnOwned(shard, generation, rollback_pending);
  };
  hooks.on_rollback_pending = [this](bool rollback_pending) {
    admission_->OnHeartbeat(rollback_pending);
  };
  hooks.on_fenced = [this](const absl::Status& why) { OnFenced(why); };
  hooks.on_refused = [this](const absl::Status& why) {
    const absl::MutexLock lock(&mu_);
    trouble_ = std::string(why.message());
    if (!ready_) runtime_->SetReady(false, trouble_);
  };
  hooks.memory_bytes = [this] { return sequencer_->table_bytes(); };
  hooks.applied_commands = [this] { return sequencer_->mutations(); };
  hooks.on_heartbeat = [this](absl::Duration took) { shard_metrics_->RecordHeartbeat(took); };
  const std::string advertise = AddressForClients(options_, *runtime_);
  link_ = std::make_unique<CoordinatorLink>(
      CoordinatorLinkOptions{
          .coordinator = options_.coordinator,
          .advertise = advertise,
          .admin = AdminAddressForOthers(runtime_->admin_address(), advertise),
          .shard_id = wanted,
          .capacity_weight = options_.capacity_weight,
          // Rows that may be old count as none: the coordinator goes back to a cluster checkpoint.
          .models = stale_ ? std::vector<ModelSpec>() : loaded_,
          .channels = options_.channels ? options_.channels
                                        : NetworkServiceChannels(options_.server.insecure,
                                                                 options_.server.tls_store)},
      std::move(hooks));
}

void ShardServer::OnOwned(ShardId shard, uint64_t generation, bool rollback_pending) {
  const absl::Status owned = sequencer_->RunTask([&](ShardCore& core) -> absl::Status {
    if (loaded_shard_ >= 0 && shard.value() >= 0 && shard.value() != loaded_shard_) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the data directory is of shard ", loaded_shard_, ", but the coordinator gave number ",
          shard.value(), ": start it with --shard-id ", loaded_shard_));
    }
    const SetOwnershipCommand own{.shard = shard, .generation = generation};
    const Answer answer = sequencer_->ApplyInTask(core, own, wire::LogOwnership(own));
    RETURN_IF_ERROR(answer.reply->status);
    DSLIDE_FAILPOINT("shard.owned");
    admission_->OnOwned(rollback_pending);
    service_->SetIdentity(shard, generation, core.topology_version());
    return absl::OkStatus();
  });
  const absl::MutexLock lock(&mu_);
  if (!owned.ok()) {
    trouble_ = std::string(owned.message());
    LogError("shard is not ready", {{"error", trouble_}});
    return runtime_->SetReady(false, trouble_);
  }
  shard_ = shard;
  generation_ = generation;
  address_ = AddressForClients(options_, *runtime_);
  ready_ = true;
  runtime_->SetReady(true);
  LogInfo("shard ready",
          {{"shard", shard.value()}, {"generation", generation}, {"address", runtime_->address()}});
}

void ShardServer::OnFenced(const absl::Status& why) {
  sequencer_->Fence(StatusWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kFenced,
      absl::StrCat("this shard process was replaced by a newer one: refresh the cluster map (",
                   why.message(), ")")));
  LogError("fenced: another process owns this shard", {{"reason", why.message()}});
  {
    const absl::MutexLock lock(&mu_);
    fenced_ = true;
    ready_ = false;
    trouble_ = "replaced by a newer process";
    runtime_->SetReady(false, trouble_);
  }
  service_->StopStreams();
  if (options_.on_fenced) options_.on_fenced();
}

void ShardServer::OnLogFailed(const absl::Status& why) {
  sequencer_->OnLogFailed(why);
  shard_metrics_->RecordLogFailed();
  {
    const absl::MutexLock lock(&mu_);
    fenced_ = true;
    ready_ = false;
    trouble_ = std::string(why.message());
    if (runtime_ != nullptr) runtime_->SetReady(false, trouble_);
  }
  if (options_.on_fenced) options_.on_fenced();
}

absl::Status ShardServer::KeepReplacedRows(ShardCore& core) {
  absl::Status kept = durable_->ForceImage(core);
  // The log does not know of these rows: what it would replay after a crash are other ones.
  if (!kept.ok()) OnLogFailed(kept);
  return kept;
}

absl::Status ShardServer::WriteAtStop() {
  if (store_ == nullptr || !options_.write_latest) return absl::OkStatus();
  {
    const absl::MutexLock lock(&mu_);
    // The newer owner's rows are the ones that count; and what a failed log has not confirmed is
    // not to be seen.
    if (fenced_) return absl::OkStatus();
  }
  if (durable_ == nullptr) {
    RETURN_IF_ERROR(WriteLatest());
    DSLIDE_FAILPOINT("shard.stop.rows_written");
    return WriteStopState();
  }
  absl::Status taken = durable_->TakeImage(*core_);
  if (!taken.ok()) LogError("cannot write the final image", {{"error", taken.message()}});
  return taken;
}

absl::Status ShardServer::WriteLatest() {
  absl::Status result;
  for (const auto& [name, model] : core_->models()) {
    const absl::Duration start = options_.clock->Now();
    const absl::StatusOr<CheckpointSize> size = store_->Write(*model, kLatestCheckpoint);
    if (!size.ok()) {
      LogError("cannot write the final checkpoint",
               {{"model", name}, {"error", size.status().message()}});
      result.Update(size.status());
      continue;
    }
    LogInfo("final checkpoint written",
            {{"model", name},
             {"rows", size->rows},
             {"bytes", size->bytes},
             {"duration", absl::FormatDuration(options_.clock->Now() - start)}});
  }
  return result;
}

ShardId ShardServer::shard() const {
  const absl::MutexLock lock(&mu_);
  return shard_;
}

absl::Status ShardServer::WaitUntilReady(absl::Duration timeout) {
  const absl::MutexLock lock(&mu_);
  if (mu_.AwaitWithTimeout(absl::Condition(&ready_), timeout)) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("the shard is not ready after ", absl::FormatDuration(timeout), ": ", trouble_));
}

StatusPage ShardServer::Status() const {
  StatusPage page;
  {
    const absl::MutexLock lock(&mu_);
    page.facts = {{"Shard", shard_.value() < 0 ? "not numbered yet" : absl::StrCat(shard_.value())},
                  {"Generation", absl::StrCat(generation_)},
                  {"Address", address_.empty() ? "none" : address_},
                  {"Coordinator", options_.coordinator.empty() ? "none" : options_.coordinator},
                  {"Clients", admission_->waiting() ? "wait for a restore" : "served"},
                  {"Durability", DurabilityName(options_.durability.mode)},
                  {"Data directory", options_.data_dir.empty() ? "none" : options_.data_dir}};
  }
  const absl::StatusOr<MetricsText> figures = MetricsText::Parse(metrics_->Expose());
  if (figures.ok()) AddShardFigures(*figures, page);
  return page;
}

}  // namespace dslide::shard
