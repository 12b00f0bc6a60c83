// A shard without its server: the state machine, the order of its commands, the admission of
// clients, the log and images, the part in cluster checkpoints, and what these tell each other.
// Files and connections are the owner's: those of ShardServer, or simulated ones.

#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "core/base/clock.h"
#include "core/protocol/commands.h"
#include "services/shard/durability/checkpoint_participant.h"
#include "services/shard/durability/durable_state.h"
#include "services/shard/metrics/shard_metrics.h"
#include "services/shard/rpc/client_admission.h"
#include "services/shard/sequencer/sequencer.h"
#include "services/shard/state/shard_core.h"

namespace dslide::shard {

// What it works with. The threads of all of it use the sequencer: they end before the runtime does.
struct ShardRuntimeParts {
  std::unique_ptr<ShardCore> core;
  DurableState* durable = nullptr;     // null without a log
  CheckpointImages* images = nullptr;  // null without a data directory
  ShardMetrics& metrics;               // outlives it, as the clock does
  const Clock& clock;
};

struct ShardRuntimeOptions {
  SequencerOptions queue = {};
  Durability durability = Durability::kCheckpoint;
  bool knows_clients = false;  // as ClientAdmission has it
  // Of a core that is made now; its limits are those that count.
  std::function<ShardCoreOptions()> core = nullptr;
  // The log has failed, or the state is lost: the process is to end. From any thread; more than
  // once.
  std::function<void(const absl::Status&)> on_broken = nullptr;
};

// Thread safety: functions that take a core must run within a task of the sequencer. The others are
// safe from any thread.
class ShardRuntime {
 public:
  ShardRuntime(ShardRuntimeParts parts, ShardRuntimeOptions options);

  // Starts the log, if there is one. Errors: those of DurableState::Begin().
  absl::Status Begin();

  // The coordinator has given the shard its generation. Errors: those of the log.
  absl::Status Own(ShardCore& core, const SetOwnershipCommand& own, bool rollback_pending);
  // Another process owns the shard now.
  void Fence(const absl::Status& why);
  // Makes rows durable that were replaced by no command. Errors: those of the log and the disk,
  // which on_broken is told, too.
  absl::Status KeepReplacedRows(ShardCore& core);

  // Whether on_broken was told.
  bool broken() const { return broken_; }

  ShardCore& core() { return *core_; }  // the sequencer's thread's, while there is one
  Sequencer& sequencer() { return sequencer_; }
  ClientAdmission& admission() { return admission_; }
  CheckpointParticipant* participant() { return participant_.get(); }  // null without images

 private:
  SequencerLog LogOfSequencer();
  std::unique_ptr<CheckpointParticipant> MakeParticipant(CheckpointImages* images);
  void OnBroken(const absl::Status& why);

  const ShardRuntimeOptions options_;
  const std::unique_ptr<ShardCore> core_;
  DurableState* const durable_;
  ShardMetrics& metrics_;
  std::atomic<bool> broken_ = false;
  Sequencer sequencer_;
  ClientAdmission admission_;
  const std::unique_ptr<CheckpointParticipant> participant_;
};

}  // namespace dslide::shard
