#include "services/embedded/embedded_cluster.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status_macros.h"
#include "core/partition/slot_map.h"
#include "core/system/files/system_error.h"
#include "core/system/process/memory_limit.h"
#include "services/common/files/durable_files.h"
#include "services/coordinator/coordinator_server.h"
#include "services/shard/image/image_label.h"
#include "services/shard/image/image_store.h"
#include "services/shard/image/model_checkpoints.h"
#include "services/shard/shard_server.h"

namespace dslide {
namespace {

constexpr char kCoordinatorAddress[] = "inproc:coordinator";

std::string ShardAddress(int64_t shard) { return absl::StrCat("inproc:shard-", shard); }

std::string ShardDir(const std::string& data_dir, int64_t shard) {
  return absl::StrCat(data_dir, "/shard-", shard);
}

absl::Status CheckOptions(const EmbeddedClusterOptions& options) {
  if (options.shards < 1 || options.shards > kMaxShards) {
    return absl::InvalidArgumentError(
        absl::StrCat("shards is ", options.shards, ", must be in [1, ", kMaxShards, "]"));
  }
  const auto weights = static_cast<int64_t>(options.capacity_weights.size());
  if (weights != 0 && weights != options.shards) {
    return absl::InvalidArgumentError(absl::StrCat("there are ", weights, " capacity weights for ",
                                                   options.shards, " shards; give one each"));
  }
  return absl::OkStatus();
}

namespace fs = std::filesystem;

absl::Status CopyTree(const fs::path& from, const fs::path& to, fs::copy_options how) {
  std::error_code error;
  fs::copy(from, to, fs::copy_options::recursive | how, error);
  if (!error || error == std::errc::no_such_file_or_directory) return absl::OkStatus();
  return SystemError(absl::StrCat("copy ", from.string(), " to"), to.string(), error.value());
}

// Images but those that a start loads: they never change, so that links to them are as good.
absl::Status TakeOverImages(const std::string& from, const std::string& to) {
  const std::string images = shard::ImageStore::DirectoryIn(from);
  for (const std::string& label : shard::ImageStore::LabelsIn(images)) {
    const auto rows = shard::ModelRowsOf(label);
    if (!rows.has_value() || rows->checkpoint == shard::kLatestCheckpoint) continue;
    const fs::path target = fs::path(shard::ImageStore::DirectoryIn(to)) / label;
    RETURN_IF_ERROR(MakeDirectory(target.parent_path()));
    if (CopyTree(fs::path(images) / label, target, fs::copy_options::create_hard_links).ok()) {
      continue;
    }
    // Of another user, or on another volume.
    RETURN_IF_ERROR(RemoveAll(target));
    RETURN_IF_ERROR(CopyTree(fs::path(images) / label, target, fs::copy_options::none));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ShardDirsWithoutRows(const std::string& data_dir,
                                                              int64_t shards,
                                                              const std::string& model) {
  std::vector<std::string> missing;
  for (int64_t shard = 0; shard < shards; ++shard) {
    std::string directory = ShardDir(data_dir, shard);
    // What may not be listed looks empty.
    RETURN_IF_ERROR(shard::ImageStore::CheckListable(shard::ImageStore::DirectoryIn(directory)));
    if (!shard::ModelCheckpoints::Exists(directory, model, shard::kLatestCheckpoint)) {
      missing.push_back(std::move(directory));
    }
  }
  return missing;
}

// Servers by address. The factory handed to the services looks here, so that a service can be
// reached as soon as it has started.
struct EmbeddedCluster::State {
  absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const std::string& address)
      ABSL_LOCKS_EXCLUDED(mu);
  absl::Status StartCoordinator(const EmbeddedClusterOptions& options);
  absl::Status StartShard(const EmbeddedClusterOptions& options, int64_t ordinal, int threads);
  void EndStart() ABSL_LOCKS_EXCLUDED(mu);
  absl::Status Stop() ABSL_LOCKS_EXCLUDED(mu);

  // Destroyed after the servers, whose calls may still look addresses up.
  absl::Mutex mu;
  std::map<std::string, ServerRuntime*> runtimes ABSL_GUARDED_BY(mu);
  bool starting ABSL_GUARDED_BY(mu) = true;  // more of them are to come

  std::unique_ptr<coordinator::CoordinatorServer> coordinator;
  std::vector<std::unique_ptr<shard::ShardServer>> shards;
  bool stopped = false;
  absl::Status stop_result;
};

absl::StatusOr<std::shared_ptr<grpc::Channel>> EmbeddedCluster::State::OpenChannel(
    const std::string& address) {
  absl::MutexLock lock(&mu);
  // A shard registers a moment before Start() learns that it serves.
  const auto decided = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return !starting || runtimes.contains(address);
  };
  mu.Await(absl::Condition(&decided));
  const auto found = runtimes.find(address);
  if (found == runtimes.end()) {
    return absl::NotFoundError(absl::StrCat("no embedded server has the address ", address));
  }
  return found->second->InProcessChannel();
}

absl::Status EmbeddedCluster::State::StartCoordinator(const EmbeddedClusterOptions& options) {
  coordinator::CoordinatorServerOptions server;
  server.server.binary = "embedded coordinator";
  server.server.reflection = false;
  server.coordinator.membership.expected_shards = options.shards;
  server.channels = [this](const std::string& address) { return OpenChannel(address); };
  if (!options.data_dir.empty()) {
    server.data_dir = absl::StrCat(options.data_dir, "/coordinator");
    RETURN_IF_ERROR(MakeDirectory(server.data_dir));
    if (!options.rows_from.empty()) {
      RETURN_IF_ERROR(CopyTree(absl::StrCat(options.rows_from, "/coordinator"), server.data_dir,
                               fs::copy_options::none));
    }
  }
  ASSIGN_OR_RETURN(coordinator, coordinator::CoordinatorServer::Start(server));
  absl::MutexLock lock(&mu);
  runtimes[kCoordinatorAddress] = &coordinator->runtime();
  return absl::OkStatus();
}

absl::Status EmbeddedCluster::State::StartShard(const EmbeddedClusterOptions& options,
                                                int64_t ordinal, int threads) {
  shard::ShardServerOptions server;
  server.server.binary = absl::StrCat("embedded shard ", ordinal);
  server.server.reflection = false;
  server.core.parallelism.threads = threads;
  server.core.memory_bytes = 0;
  server.core.context_bytes = 0;
  server.core.clients.total_reply_bytes = 0;
  server.queue.queue_bytes = 0;
  server.limits.bulk_bytes = 0;
  // They are one process.
  server.memory_limit_bytes = MemoryLimitBytes() / std::max<int64_t>(1, options.shards);
  server.coordinator = kCoordinatorAddress;
  server.advertise = ShardAddress(ordinal);
  server.shard_id = static_cast<int32_t>(ordinal);
  if (!options.capacity_weights.empty()) {
    server.capacity_weight = options.capacity_weights[ordinal];
  }
  server.channels = [this](const std::string& address) { return OpenChannel(address); };
  server.metric_labels = {{"shard", absl::StrCat(ordinal)}};
  if (!options.rows_from.empty()) server.rows_from = ShardDir(options.rows_from, ordinal);
  if (!options.data_dir.empty()) {
    server.data_dir = ShardDir(options.data_dir, ordinal);
    server.write_latest = options.write_latest;
    RETURN_IF_ERROR(MakeDirectory(server.data_dir));
    if (!options.rows_from.empty()) {
      RETURN_IF_ERROR(TakeOverImages(server.rows_from, server.data_dir));
    }
  }
  ASSIGN_OR_RETURN(std::unique_ptr<shard::ShardServer> started,
                   shard::ShardServer::Start(std::move(server)));
  absl::MutexLock lock(&mu);
  runtimes[ShardAddress(ordinal)] = &started->runtime();
  shards.push_back(std::move(started));
  return absl::OkStatus();
}

void EmbeddedCluster::State::EndStart() {
  const absl::MutexLock lock(&mu);
  starting = false;
}

// Callers before callees: the coordinator calls shards, then shards take leave of the coordinator.
absl::Status EmbeddedCluster::State::Stop() {
  if (stopped) return stop_result;
  stopped = true;
  EndStart();
  if (coordinator != nullptr) coordinator->coordinator().Stop();
  for (const auto& server : shards) stop_result.Update(server->runtime().Drain());
  if (coordinator != nullptr) stop_result.Update(coordinator->runtime().Drain());
  {
    absl::MutexLock lock(&mu);
    runtimes.clear();
  }
  shards.clear();
  coordinator.reset();
  return stop_result;
}

EmbeddedCluster::EmbeddedCluster(std::unique_ptr<State> state) : state_(std::move(state)) {}

EmbeddedCluster::~EmbeddedCluster() { Stop().IgnoreError(); }

absl::StatusOr<std::unique_ptr<EmbeddedCluster>> EmbeddedCluster::Start(
    const EmbeddedClusterOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<EmbeddedCluster> cluster(new EmbeddedCluster(std::make_unique<State>()));
  State& state = *cluster->state_;
  const auto cpus = static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  const int threads = options.threads_per_shard > 0
                          ? options.threads_per_shard
                          : static_cast<int>(std::max<int64_t>(1, cpus / options.shards));
  RETURN_IF_ERROR(state.StartCoordinator(options));
  for (int64_t ordinal = 0; ordinal < options.shards; ++ordinal) {
    RETURN_IF_ERROR(state.StartShard(options, ordinal, threads));
  }
  state.EndStart();
  for (const auto& server : state.shards) {
    RETURN_IF_ERROR(server->WaitUntilReady(options.start_timeout));
  }
  return cluster;
}

std::string EmbeddedCluster::coordinator_address() const { return kCoordinatorAddress; }

absl::StatusOr<std::shared_ptr<grpc::Channel>> EmbeddedCluster::OpenChannel(
    const std::string& address) {
  return state_->OpenChannel(address);
}

LocalShard* EmbeddedCluster::FindShard(const std::string& address) {
  for (size_t i = 0; i < state_->shards.size(); ++i) {
    if (ShardAddress(static_cast<int64_t>(i)) == address) return &state_->shards[i]->local();
  }
  return nullptr;
}

std::vector<const Metrics*> EmbeddedCluster::metrics() const {
  std::vector<const Metrics*> all;
  if (state_->coordinator != nullptr) all.push_back(&state_->coordinator->metrics());
  for (const auto& server : state_->shards) all.push_back(&server->metrics());
  return all;
}

std::map<std::string, double> EmbeddedCluster::StageSeconds() const {
  std::map<std::string, double> seconds;
  for (int64_t i = 0; i < kNumStages; ++i) {
    const Stage stage = static_cast<Stage>(i);
    double& sum = seconds[std::string(StageName(stage))];
    for (const auto& server : state_->shards) {
      sum += absl::ToDoubleSeconds(server->stages().Total(stage));
    }
  }
  return seconds;
}

absl::Status EmbeddedCluster::Stop() { return state_->Stop(); }

}  // namespace dslide
