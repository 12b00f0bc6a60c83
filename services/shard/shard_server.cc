#include "services/shard/shard_server.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/listen_address.h"
#include "core/base/log.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/wire/reason_words.h"

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
  std::unique_ptr<ShardServer> server(new ShardServer(std::move(options)));
  const ShardServerOptions& own = server->options_;
  server->metrics_ = std::make_unique<Metrics>(own.metric_labels);
  server->shard_metrics_ = std::make_unique<ShardMetrics>(*server->metrics_, *server->stages_);
  server->core_ = std::make_unique<ShardCore>(Resolved(own.core, server->stages_.get()));
  if (const absl::Status loaded = server->LoadCheckpoints(); !loaded.ok()) {
    return DataDirError(own.data_dir, loaded);
  }
  RETURN_IF_ERROR(server->StartServing());
  server->StartLink();
  return server;
}

ShardServer::~ShardServer() {
  if (runtime_ != nullptr) runtime_->Drain().IgnoreError();
}

absl::Status ShardServer::LoadCheckpoints() {
  if (options_.data_dir.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(store_, CheckpointStore::Open(options_.data_dir));
  ASSIGN_OR_RETURN(const std::vector<std::string> models, store_->ModelsWith(kLatestCheckpoint));
  for (const std::string& name : models) {
    const absl::Duration start = options_.clock->Now();
    ASSIGN_OR_RETURN(std::unique_ptr<ShardModel> model,
                     store_->Load(*core_, name, kLatestCheckpoint));
    const int32_t shard = model->shard().value();
    const int32_t wanted = loaded_shard_ >= 0 ? loaded_shard_ : options_.shard_id;
    if (wanted >= 0 && shard != wanted) {
      return StatusWithReason(
          absl::StatusCode::kFailedPrecondition, reason::kSlotsDiffer,
          absl::StrCat("checkpoint latest of model \"", name, "\" is of shard ", shard,
                       ", this is shard ", wanted, ": each shard has a data directory of its own"));
    }
    loaded_shard_ = shard;
    loaded_.push_back(model->spec());
    LogInfo("model loaded", {{"model", name},
                             {"shard", shard},
                             {"bytes", model->memory_bytes()},
                             {"duration", absl::FormatDuration(options_.clock->Now() - start)}});
    core_->InstallModel(std::move(model));
  }
  return absl::OkStatus();
}

absl::Status ShardServer::StartServing() {
  shard_metrics_->PublishSizes(*core_);
  sequencer_ =
      std::make_unique<Sequencer>(*core_, options_.queue, *shard_metrics_, *options_.clock);
  service_ = std::make_unique<ShardServiceImpl>(
      ShardServiceOptions{.limits = options_.limits, .max_message_bytes = kProtocolMessageBytes},
      sequencer_.get(), shard_metrics_.get(), store_.get(), metrics_.get(), options_.clock);
  ServerHooks hooks;
  hooks.before_shutdown = [this] {
    if (link_ != nullptr) link_->Stop();
    service_->StopStreams();
  };
  hooks.after_shutdown = [this] {
    sequencer_->Stop();
    return WriteLatest();
  };
  hooks.status_text = [this] { return StatusText(); };
  ASSIGN_OR_RETURN(runtime_,
                   ServerRuntime::Start(options_.server, {{service_.get(), kShardServiceName}},
                                        *metrics_, std::move(hooks)));
  return absl::OkStatus();
}

void ShardServer::StartLink() {
  const int32_t wanted = options_.shard_id >= 0 ? options_.shard_id : loaded_shard_;
  if (options_.coordinator.empty()) {
    // Nobody mints generations here: the time of the start grows from process to process.
    OnOwned(ShardId(wanted), static_cast<uint64_t>(absl::ToUnixMicros(absl::Now())));
    return;
  }
  runtime_->SetReady(false, kWaiting);
  CoordinatorLinkHooks hooks;
  hooks.on_owned = [this](ShardId shard, uint64_t generation) { OnOwned(shard, generation); };
  hooks.on_fenced = [this](const absl::Status& why) { OnFenced(why); };
  hooks.on_refused = [this](const absl::Status& why) {
    const absl::MutexLock lock(&mu_);
    trouble_ = std::string(why.message());
    if (!ready_) runtime_->SetReady(false, trouble_);
  };
  hooks.memory_bytes = [this] { return sequencer_->table_bytes(); };
  hooks.applied_commands = [this] { return sequencer_->mutations(); };
  link_ = std::make_unique<CoordinatorLink>(
      CoordinatorLinkOptions{
          .coordinator = options_.coordinator,
          .advertise = options_.advertise.empty() ? runtime_->address() : options_.advertise,
          .shard_id = wanted,
          .capacity_weight = options_.capacity_weight,
          .models = loaded_,
          .channels = options_.channels ? options_.channels
                                        : NetworkServiceChannels(options_.server.insecure)},
      std::move(hooks));
}

void ShardServer::OnOwned(ShardId shard, uint64_t generation) {
  const absl::Status owned = sequencer_->RunTask([&](ShardCore& core) -> absl::Status {
    if (loaded_shard_ >= 0 && shard.value() >= 0 && shard.value() != loaded_shard_) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the data directory is of shard ", loaded_shard_, ", but the coordinator gave number ",
          shard.value(), ": start it with --shard-id ", loaded_shard_));
    }
    core.Apply(SetOwnershipCommand{.shard = shard, .generation = generation});
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

absl::Status ShardServer::WriteLatest() {
  if (store_ == nullptr || !options_.write_latest) return absl::OkStatus();
  {
    const absl::MutexLock lock(&mu_);
    // The newer owner's rows are the ones that count.
    if (fenced_) return absl::OkStatus();
  }
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

std::string ShardServer::StatusText() const {
  const absl::MutexLock lock(&mu_);
  return absl::StrCat(
      "shard: ", shard_.value(), "\ngeneration: ", generation_,
      "\ncoordinator: ", options_.coordinator, "\nready: ", ready_ ? "yes" : trouble_,
      "\nmutations applied: ", sequencer_->mutations(),
      "\ntable bytes: ", sequencer_->table_bytes(), "\ndata directory: ", options_.data_dir, "\n");
}

}  // namespace dslide::shard
