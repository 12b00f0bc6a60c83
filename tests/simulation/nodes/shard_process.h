// One life of a shard's process: the product's runtime and durable state, over a simulated disk and
// network. What services/shard/rpc does in front of them is repeated here.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/net/metrics/metrics.h"
#include "core/system/stage_times.h"
#include "services/shard/durability/durable_state.h"
#include "services/shard/shard_runtime.h"
#include "tests/simulation/nodes/coordinator_host.h"
#include "tests/simulation/nodes/log_device.h"
#include "tests/simulation/nodes/memory_images.h"
#include "tests/simulation/world.h"

namespace dslide::simulation {

// What outlives a shard's processes.
struct ShardDisk {
  LogDisk log;
  ImageDisk images;  // of the log
  ImageDisk parts;   // of cluster checkpoints
};

// The answer to a call of a client.
struct ShardAnswer {
  std::shared_ptr<const Reply> reply;  // shared with the shard's memory of it
  uint64_t generation = 0;
  int64_t life = 0;  // of the shard's state, when it answered
};
using Respond = std::function<void(ShardAnswer)>;

// Not thread-safe.
class ShardProcess {
 public:
  // `world` and `disk` outlive it. on_end: the process is to end by itself.
  ShardProcess(World& world, int shard, NodePtr node, ShardDisk& disk, bool power,
               std::function<void()> on_end);

  // Restores what the disk has and begins to serve. Errors: DataLoss.
  absl::Status Start();

  const NodePtr& node() const { return node_; }
  const shard::ShardCore& core() const { return runtime_->core(); }
  uint64_t generation() const { return core().generation(); }

  // --- Calls of clients, as bytes where the log keeps them.
  void Hello(const HelloCommand& command, Respond respond);
  void Step(const std::string& bytes, Respond respond);
  void Scatter(const std::string& bytes, Respond respond);
  void Gather(const GatherCommand& command, Respond respond);
  // --- Calls of the coordinator.
  void CreateModel(const CreateModelCommand& command, Respond respond);
  shard::Sequencer& sequencer() { return runtime_->sequencer(); }
  shard::CheckpointParticipant& participant() { return *runtime_->participant(); }
  absl::StatusOr<std::vector<ClientStep>> Freeze(shard::ShardCore& core, uint64_t checkpoint_id,
                                                 uint64_t generation, absl::Duration limit);
  absl::StatusOr<std::vector<ClientStep>> Admit(shard::ShardCore& core, uint64_t checkpoint_id,
                                                const std::vector<ClientStep>& up_to,
                                                const std::vector<ClientId>& evict);
  absl::StatusOr<shard::CutSize> Cut(shard::ShardCore& core, uint64_t checkpoint_id,
                                     const shard::PartBase& base);
  absl::Status Rollback(shard::ShardCore& core, uint64_t checkpoint_id, uint32_t checksum);
  shard::CheckpointImages& parts() { return parts_; }

  bool owned() const { return owned_; }

  // Compares its state with the oracle's.
  void Compare();

 private:
  void OnOwned(const RegistrationAnswer& answer);
  void OnFenced();
  shard::ClientAdmission& admission() { return runtime_->admission(); }
  absl::Status Restore(std::unique_ptr<shard::ShardCore>& core);
  absl::StatusOr<std::unique_ptr<shard::ShardLog>> OpenLog(shard::DurableStateParts::Visit visit);
  void Submit(shard::Sequencer::Request request, Respond respond);
  void Poke();
  void RunOnce();
  void End(absl::string_view why);
  void Register();
  void RegisterLater();
  void HeartbeatLater();
  void Heartbeat();

  World& world_;
  const int shard_;
  const NodePtr node_;
  ShardDisk& disk_;
  const bool power_;  // what ended the life before
  const std::function<void()> on_end_;
  const bool logs_;
  const std::string instance_id_;
  Metrics metrics_;
  StageTimes stages_;
  shard::ShardMetrics shard_metrics_;
  std::unique_ptr<shard::ShardRuntime> runtime_;  // used by what is below
  MemoryImages part_images_;
  shard::CheckpointImages parts_;
  std::unique_ptr<shard::DurableState> durable_;  // null without a log
  int64_t life_ = 0;                              // of the state, by the oracle's count
  bool owned_ = false;
  bool turning_ = false;
  absl::Duration wake_at_ = absl::InfiniteDuration();
};

}  // namespace dslide::simulation
