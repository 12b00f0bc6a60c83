// One life of a shard's process: the product's state machine, sequencer, gate and participant, over
// a simulated disk and network. What services/shard/shard_server.h and the service do between them
// is repeated here in its order; their threads, files and connections are not.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/net/metrics/metrics.h"
#include "core/system/stage_times.h"
#include "services/shard/durability/checkpoint_participant.h"
#include "services/shard/rpc/client_admission.h"
#include "services/shard/sequencer/sequencer.h"
#include "services/shard/state/shard_core.h"
#include "tests/simulation/nodes/coordinator_host.h"
#include "tests/simulation/nodes/log_device.h"
#include "tests/simulation/nodes/memory_image.h"
#include "tests/simulation/nodes/part_store.h"
#include "tests/simulation/world.h"

namespace dslide::simulation {

// What outlives a shard's processes.
struct ShardDisk {
  bool logs = false;  // there is a command log
  LogDisk log;
  std::vector<MemoryImage> images;  // that count, newest first
  PartDisk parts;
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
  const shard::ShardCore& core() const { return *core_; }
  uint64_t generation() const { return core_->generation(); }

  // --- Calls of clients, as bytes where the log keeps them.
  void Hello(const HelloCommand& command, Respond respond);
  void Step(const std::string& bytes, Respond respond);
  void Scatter(const std::string& bytes, Respond respond);
  void Gather(const GatherCommand& command, Respond respond);
  // --- Calls of the coordinator.
  void CreateModel(const CreateModelCommand& command, Respond respond);
  // Runs in its turn; the result goes to `done`.
  void Task(std::function<absl::Status(shard::ShardCore&)> task,
            std::function<void(absl::Status)> done,
            shard::QueuePlace place = shard::QueuePlace::kBack);
  const shard::CheckpointParticipant& participant() const { return *participant_; }
  absl::StatusOr<std::vector<ClientStep>> Freeze(shard::ShardCore& core, uint64_t checkpoint_id,
                                                 uint64_t generation, absl::Duration limit);
  absl::StatusOr<std::vector<ClientStep>> Admit(shard::ShardCore& core, uint64_t checkpoint_id,
                                                const std::vector<ClientStep>& up_to,
                                                const std::vector<ClientId>& evict);
  absl::StatusOr<shard::CutSize> Cut(shard::ShardCore& core, uint64_t checkpoint_id,
                                     const shard::PartBase& base);
  absl::Status Abort(shard::ShardCore& core, uint64_t checkpoint_id);
  absl::Status Rollback(shard::ShardCore& core, uint64_t checkpoint_id, uint32_t checksum);
  PartStore& parts() { return *parts_; }

  bool owned() const { return owned_; }

  // Compares its state with the oracle's.
  void Compare();

 private:
  void OnOwned(ShardId shard_id, const RegistrationAnswer& answer);
  void OnFenced();
  absl::Status Restore();
  void StartLog(const LogRead& found);
  void Submit(shard::Sequencer::Request request, Respond respond);
  void Poke(absl::Duration pause);
  void RunOnce();
  void Fail(const absl::Status& why);
  absl::StatusOr<uint64_t> SettleTables(shard::ShardCore& core);
  absl::Status ForceImage(shard::ShardCore& core);
  void MaybeTakeImage(shard::ShardCore& core);
  void WriteImage(const std::shared_ptr<shard::ShardSnapshot>& snapshot,
                  const std::shared_ptr<ImageWriter>& writer);
  void Publish(MemoryImage image);
  void Register();
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
  std::unique_ptr<shard::ShardCore> core_;
  std::unique_ptr<LogDevice> log_;
  Metrics metrics_;
  StageTimes stages_;
  shard::ShardMetrics shard_metrics_;
  std::unique_ptr<PartStore> parts_;
  std::unique_ptr<shard::Sequencer> sequencer_;
  std::unique_ptr<shard::ClientAdmission> admission_;
  std::unique_ptr<shard::CheckpointParticipant> participant_;
  int64_t life_ = 0;       // of the state, by the oracle's count
  uint64_t image_at_ = 0;  // lsn of the last image that was tried
  bool owned_ = false;
  bool image_running_ = false;
  bool turning_ = false;
  absl::Duration wake_at_ = absl::InfiniteDuration();
};

}  // namespace dslide::simulation
