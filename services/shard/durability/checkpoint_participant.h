// This shard's part in cluster checkpoints: freeze, admit, cut, prepare, and the way back. The
// coordinator drives it; docs/operate/checkpoint.md has the protocol.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/shard/image/checkpoint_images.h"
#include "services/shard/sequencer/sequencer.h"
#include "services/shard/sequencer/step_gate.h"
#include "services/shard/state/shard_core.h"

namespace dslide::shard {

struct ParticipantHooks {
  // Settles the hash tables, in the log too where there is one; the log's position then.
  std::function<absl::StatusOr<uint64_t>(ShardCore&)> settle;
  // Keeps rows that no command has changed. Null without a log.
  std::function<absl::Status(ShardCore&)> rows_replaced;
  // The state is now that of a checkpoint.
  std::function<void()> on_rolled_back;
  // The state is half an old one and half nothing: this process must end.
  std::function<void(const absl::Status&)> on_broken;
  // An empty core with this shard's limits.
  std::function<ShardCore()> make_core;
};

// What a cut marks.
struct CutSize {
  int64_t rows = 0;
  absl::Duration stall = {};  // for how long requests had to wait for it
};

// Thread safety: what takes a core runs within a task of the sequencer; the rest is safe anywhere.
class CheckpointParticipant {
 public:
  // The pointers outlive it.
  CheckpointParticipant(Sequencer* sequencer, CheckpointImages* images, ParticipantHooks hooks)
      : sequencer_(sequencer), images_(images), hooks_(std::move(hooks)) {}

  CheckpointImages& images() { return *images_; }

  // For how long it is worth to wait for a better moment: seconds where a cut would wait for hash
  // tables that are being sorted, or will be before the steps in flight are applied, or for the
  // image before; less where steps are under way that have changed rows and would have to be
  // finished first; zero otherwise. Errors: FailedPrecondition STALE_GENERATION.
  absl::StatusOr<absl::Duration> EstimateFreezeDelay(const ShardCore& core,
                                                     uint64_t generation) const;
  // Errors: FailedPrecondition STALE_GENERATION, CHECKPOINT_RUNNING; InvalidArgument OUT_OF_RANGE.
  absl::StatusOr<std::vector<ClientStep>> Freeze(ShardCore& core, uint64_t checkpoint_id,
                                                 uint64_t generation, absl::Duration limit);
  // Returns what is not complete yet. Errors: FailedPrecondition NOT_FROZEN.
  absl::StatusOr<std::vector<ClientStep>> Admit(ShardCore& core, uint64_t checkpoint_id,
                                                const std::vector<ClientStep>& up_to,
                                                const std::vector<ClientId>& evict);
  // Errors: FailedPrecondition NOT_FROZEN, also when an admitted step is not complete; those of the
  // log. The gate stays frozen then.
  // base: the checkpoint whose part here may be built on, and what its list of files is.
  absl::StatusOr<CutSize> Cut(ShardCore& core, uint64_t checkpoint_id, const PartBase& base = {});
  // Lets steps go on without a cut, and gives up the part that is still being written. Fine when
  // there is neither.
  void Abort(ShardCore& core, uint64_t checkpoint_id);
  // Errors: NotFound, DataLoss: nothing has changed; later ones go to on_broken too.
  absl::StatusOr<CutSize> Rollback(ShardCore& core, uint64_t checkpoint_id,
                                   uint32_t files_checksum);

 private:
  absl::Status CheckFrozen(uint64_t checkpoint_id) const;
  absl::Status CheckIdle(const ShardCore& core) const;
  static absl::Status CheckGeneration(const ShardCore& core, uint64_t generation);

  Sequencer* const sequencer_;
  CheckpointImages* const images_;
  const ParticipantHooks hooks_;
};

// The prepared part of a checkpoint, read in full. checksum: of its list of files; 0: any.
// Errors: NotFound UNKNOWN_CHECKPOINT; DataLoss.
absl::StatusOr<FileListSummary> VerifyPart(CheckpointImages& images, uint64_t checkpoint_id,
                                           uint32_t checksum);

}  // namespace dslide::shard
