// This shard's side of a cluster checkpoint: freeze, admit, cut, write, and roll back. The
// coordinator calls it in that order (docs/operate/checkpoint.md).

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/shard/image/checkpoint_images.h"
#include "services/shard/sequencer/sequencer.h"
#include "services/shard/sequencer/step_gate.h"
#include "services/shard/state/shard_core.h"

namespace dslide::shard {

struct ParticipantHooks {
  // Finishes builds of hash tables, and logs that. Returns the log's position; 0 without a log.
  std::function<absl::StatusOr<uint64_t>(ShardCore&)> settle;
  // Makes rows durable that were replaced by no command. May be null.
  std::function<absl::Status(ShardCore&)> rows_replaced;
  // Called when the state is that of a checkpoint.
  std::function<void()> on_rolled_back;
  // Called when a rollback failed half-way. The state is lost, and the process must end.
  std::function<void(const absl::Status&)> on_broken;
  // Makes an empty core with this shard's limits. From any thread.
  std::function<ShardCore()> make_core;
};

// What a cut took.
struct CutSize {
  int64_t rows = 0;
  absl::Duration stall = {};  // how long requests waited for it
};

// Thread safety: functions that take a core must run within a task of the sequencer. The others are
// safe from any thread.
class CheckpointParticipant {
 public:
  // The pointers outlive it.
  CheckpointParticipant(Sequencer* sequencer, CheckpointImages* images, ParticipantHooks hooks)
      : sequencer_(sequencer), images_(images), hooks_(std::move(hooks)) {}

  CheckpointImages& images() { return *images_; }

  // How long the coordinator should wait for a better moment to freeze. Seconds, if a cut would
  // wait for the previous image or for hash tables that are sorted now or before the steps in
  // flight are applied. Less, if steps that have changed rows are not complete. Else zero. Errors:
  // FailedPrecondition STALE_GENERATION.
  absl::StatusOr<absl::Duration> EstimateFreezeDelay(const ShardCore& core,
                                                     uint64_t generation) const;
  // Errors: FailedPrecondition STALE_GENERATION, CHECKPOINT_RUNNING; InvalidArgument OUT_OF_RANGE.
  absl::StatusOr<std::vector<ClientStep>> Freeze(ShardCore& core, uint64_t checkpoint_id,
                                                 uint64_t generation, absl::Duration limit);
  // Returns what is not complete yet (StepGate::Incomplete). Errors: FailedPrecondition NOT_FROZEN.
  absl::StatusOr<std::vector<ClientStep>> Admit(ShardCore& core, uint64_t checkpoint_id,
                                                const std::vector<ClientStep>& up_to,
                                                const std::vector<ClientId>& evict);
  // base: the checkpoint on whose part here this one may be built, and the checksum of its list of
  // files. Errors: FailedPrecondition NOT_FROZEN, also while an admitted step is not complete;
  // those of the log. After an error the gate stays closed.
  absl::StatusOr<CutSize> Cut(ShardCore& core, uint64_t checkpoint_id, const PartBase& base = {});
  // Opens the gate without a cut, and drops the part that is being written, and what a rollback was
  // prepared with. OK if there is nothing.
  void Abort(ShardCore& core, uint64_t checkpoint_id);
  // Checks every file of the checkpoint's part. If both fit into the memory budget, it is loaded
  // beside the present state while it is checked, and kept for Rollback(), which then reads
  // nothing. Not within a task: waits for one, and reads for long. One call after the other.
  // Errors: those of VerifyPart() and LoadImage(); nothing has changed.
  absl::StatusOr<FileListSummary> PrepareRollback(uint64_t checkpoint_id, uint32_t files_checksum);
  // Replaces the state by the checkpoint's: by what was prepared, or what is read now, after a
  // verification that is not of lately. Errors: NotFound, DataLoss: nothing has changed. Others are
  // passed to on_broken, too.
  absl::StatusOr<CutSize> Rollback(ShardCore& core, uint64_t checkpoint_id,
                                   uint32_t files_checksum);

 private:
  // A checkpoint in memory.
  struct Prepared {
    uint64_t checkpoint_id = 0;
    FileListSummary files = {};
    ShardCore core;
  };
  // Drops what is prepared, and what is being prepared once it is.
  void DropPrepared();
  std::optional<Prepared> TakePrepared(uint64_t checkpoint_id, uint32_t files_checksum);
  // Clients that have left since the freeze are not waited for.
  void DropClosed(const ShardCore& core);
  absl::Status CheckFrozen(uint64_t checkpoint_id) const;
  absl::Status CheckIdle(const ShardCore& core) const;
  static absl::Status CheckGeneration(const ShardCore& core, uint64_t generation);

  Sequencer* const sequencer_;
  CheckpointImages* const images_;
  const ParticipantHooks hooks_;

  absl::Mutex preparing_;  // held for all of a preparation
  absl::Mutex mu_;
  std::optional<Prepared> prepared_ ABSL_GUARDED_BY(mu_);
  int64_t drops_ ABSL_GUARDED_BY(mu_) = 0;  // calls of DropPrepared()
};

// The prepared part of a checkpoint, read in full. checksum: of its list of files; 0: any.
// Errors: NotFound UNKNOWN_CHECKPOINT; DataLoss.
absl::StatusOr<FileListSummary> VerifyPart(CheckpointImages& images, uint64_t checkpoint_id,
                                           uint32_t checksum);

}  // namespace dslide::shard
