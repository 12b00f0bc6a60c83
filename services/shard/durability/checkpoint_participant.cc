#include "services/shard/durability/checkpoint_participant.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/system/failpoint.h"
#include "core/system/log.h"
#include "core/wire/log/logged_command.h"

namespace dslide::shard {
namespace {

constexpr absl::Duration kLongestFreeze = absl::Minutes(10);
// Sorting a shard's tables takes a second for a million rows. Between the steps of one trainer
// there is a moment every few steps; those of many need not have one in common.
constexpr absl::Duration kForTables = absl::Seconds(5);
constexpr absl::Duration kForSteps = absl::Milliseconds(300);
// Steps that are applied from the question whether to cut until the cut, at most: those in flight.
constexpr int64_t kStepsOfACut = 16;

int64_t CountRows(const ShardCore& core) {
  int64_t rows = 0;
  for (const auto& [name, model] : core.models()) {
    for (const ShardTable& table : model->tables()) rows += table.stored().present();
  }
  return rows;
}

absl::Status CheckChecksum(uint64_t checkpoint_id, const FileListSummary& files,
                           uint32_t checksum) {
  if (checksum == 0 || checksum == files.checksum) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat(
      "this shard's part of cluster checkpoint %d has a list of files with checksum %08x, the "
      "manifest says %08x: it is of another checkpoint",
      checkpoint_id, files.checksum, checksum));
}

}  // namespace

absl::StatusOr<FileListSummary> VerifyPart(CheckpointImages& images, uint64_t checkpoint_id,
                                           uint32_t checksum) {
  ASSIGN_OR_RETURN(const FileListSummary files, images.Verify(checkpoint_id));
  RETURN_IF_ERROR(CheckChecksum(checkpoint_id, files, checksum));
  return files;
}

absl::Status CheckpointParticipant::CheckFrozen(uint64_t checkpoint_id) const {
  const StepGate& gate = sequencer_->gate();
  if (gate.frozen() && gate.checkpoint_id() == checkpoint_id) return absl::OkStatus();
  return StatusWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kNotFrozen,
      absl::StrCat("steps are not held for cluster checkpoint ", checkpoint_id,
                   ": its time is over, or another one has begun; take a new one"));
}

absl::Status CheckpointParticipant::CheckIdle(const ShardCore& core) const {
  if (!images_->busy() && !ShardSnapshot::Active(core)) return absl::OkStatus();
  return StatusWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kCheckpointRunning,
      "this shard still writes another image of its state: try again when it has done so");
}

absl::Status CheckpointParticipant::CheckGeneration(const ShardCore& core, uint64_t generation) {
  if (generation == core.generation()) return absl::OkStatus();
  return StatusWithReason(absl::StatusCode::kFailedPrecondition, reason::kStaleGeneration,
                          absl::StrCat("the request is for generation ", generation,
                                       ", this shard is ", core.generation()));
}

absl::StatusOr<absl::Duration> CheckpointParticipant::EstimateFreezeDelay(
    const ShardCore& core, uint64_t generation) const {
  RETURN_IF_ERROR(CheckGeneration(core, generation));
  if (!CheckIdle(core).ok() || core.SettlingWaits(kStepsOfACut)) return kForTables;
  return StepGate::AnyBegun(core.contexts()) ? kForSteps : absl::ZeroDuration();
}

absl::StatusOr<std::vector<ClientStep>> CheckpointParticipant::Freeze(ShardCore& core,
                                                                      uint64_t checkpoint_id,
                                                                      uint64_t generation,
                                                                      absl::Duration limit) {
  if (limit <= absl::ZeroDuration() || limit > kLongestFreeze) {
    return StatusWithReason(absl::StatusCode::kInvalidArgument, reason::kOutOfRange,
                            "limit_ms must be in (0, 600000]");
  }
  RETURN_IF_ERROR(CheckGeneration(core, generation));
  RETURN_IF_ERROR(CheckIdle(core));
  DropPrepared();
  sequencer_->Freeze(checkpoint_id, limit);
  DSLIDE_FAILPOINT("shard.cut.frozen");
  return StepGate::Changed(core.contexts());
}

absl::StatusOr<std::vector<ClientStep>> CheckpointParticipant::Admit(
    ShardCore& core, uint64_t checkpoint_id, const std::vector<ClientStep>& up_to,
    const std::vector<ClientId>& evict) {
  RETURN_IF_ERROR(CheckFrozen(checkpoint_id));
  StepGate& gate = sequencer_->gate();
  for (const ClientId& client : evict) {
    LogWarning("a client did not finish its step for a cluster checkpoint and is retired",
               {{"checkpoint_id", checkpoint_id}, {"client", ShortName(client)}});
    const auto known = core.clients().clients().find(client);
    // A client that is not known here is refused from now on too; the name of its job says nothing.
    const CloseClientCommand bye{
        .job = known == core.clients().clients().end() ? "unknown" : known->second.job,
        .client = client};
    RETURN_IF_ERROR(sequencer_->ApplyInTask(core, bye, wire::LogCloseClient(bye)).reply->status);
    gate.Drop(client);
  }
  for (const ClientStep& step : up_to) gate.Admit(step.client, step.step);
  DropClosed(core);
  DSLIDE_FAILPOINT("shard.cut.admitted");
  return gate.Incomplete(core.contexts());
}

absl::StatusOr<CutSize> CheckpointParticipant::Cut(ShardCore& core, uint64_t checkpoint_id,
                                                   const PartBase& base) {
  RETURN_IF_ERROR(CheckFrozen(checkpoint_id));
  StepGate& gate = sequencer_->gate();
  DropClosed(core);
  if (!gate.Incomplete(core.contexts()).empty()) {
    return StatusWithReason(absl::StatusCode::kFailedPrecondition, reason::kNotFrozen,
                            "an admitted step is not complete: ask AdmitSteps until all are");
  }
  RETURN_IF_ERROR(CheckIdle(core));
  ASSIGN_OR_RETURN(const uint64_t lsn, hooks_.settle(core));
  DSLIDE_FAILPOINT("shard.cut.settled");
  std::shared_ptr<ShardSnapshot> snapshot = ShardSnapshot::TakeCut(lsn, core, checkpoint_id, base);
  RETURN_IF_ERROR(images_->Begin(
      checkpoint_id, std::move(snapshot),
      [sequencer = sequencer_](const std::shared_ptr<ShardSnapshot>& written) {
        // Refused only while the shard stops; then nobody changes rows any more.
        sequencer->SubmitTask([written](ShardCore&) { written->Release(); }, QueuePlace::kFront)
            .IgnoreError();
      }));
  const CutSize size{.rows = CountRows(core), .stall = sequencer_->Stall()};
  gate.Open();
  DSLIDE_FAILPOINT("shard.cut.made");
  return size;
}

void CheckpointParticipant::DropClosed(const ShardCore& core) {
  sequencer_->gate().DropClosed(
      [&](const ClientId& client) { return core.clients().IsClosed(client); });
}

void CheckpointParticipant::Abort(ShardCore& core, uint64_t checkpoint_id) {
  StepGate& gate = sequencer_->gate();
  if (gate.frozen() && gate.checkpoint_id() == checkpoint_id) gate.Open();
  images_->Abandon(checkpoint_id);
  DropPrepared();
}

void CheckpointParticipant::DropPrepared() {
  std::optional<Prepared> dropped;  // outside of the lock
  const absl::MutexLock lock(&mu_);
  dropped.swap(prepared_);
  ++drops_;
}

std::optional<CheckpointParticipant::Prepared> CheckpointParticipant::TakePrepared(
    uint64_t checkpoint_id, uint32_t files_checksum) {
  std::optional<Prepared> taken;
  const absl::MutexLock lock(&mu_);
  taken.swap(prepared_);
  if (taken.has_value() && (taken->checkpoint_id != checkpoint_id ||
                            !CheckChecksum(checkpoint_id, taken->files, files_checksum).ok())) {
    taken.reset();
  }
  return taken;
}

absl::StatusOr<FileListSummary> CheckpointParticipant::PrepareRollback(uint64_t checkpoint_id,
                                                                       uint32_t files_checksum) {
  const absl::MutexLock one(&preparing_);
  std::optional<Prepared> prepared = TakePrepared(checkpoint_id, files_checksum);
  int64_t drops = 0;
  {
    const absl::MutexLock lock(&mu_);
    drops = drops_;
  }
  if (!prepared.has_value()) {
    int64_t room = 0;
    RETURN_IF_ERROR(sequencer_->RunTask([&room](const ShardCore& core) {
      room = core.limits().memory_bytes - core.memory_bytes();
      return absl::OkStatus();
    }));
    ShardCore core = hooks_.make_core();
    CoreLimits limits = core.limits();
    limits.memory_bytes = room;
    core.SetLimits(limits);
    absl::StatusOr<FileListSummary> files = images_->Load(checkpoint_id, core);
    if (!files.ok()) {
      // A verification names what is wrong. What is only too large will be loaded in the place of
      // the present state.
      absl::StatusOr<FileListSummary> verified =
          VerifyPart(*images_, checkpoint_id, files_checksum);
      if (verified.ok() && !absl::IsResourceExhausted(files.status())) return files;
      return verified;
    }
    RETURN_IF_ERROR(CheckChecksum(checkpoint_id, *files, files_checksum));
    prepared = {.checkpoint_id = checkpoint_id, .files = *files, .core = std::move(core)};
  }
  FileListSummary files = prepared->files;
  const absl::MutexLock lock(&mu_);
  if (drops == drops_) prepared_ = std::move(prepared);
  return files;
}

absl::StatusOr<CutSize> CheckpointParticipant::Rollback(ShardCore& core, uint64_t checkpoint_id,
                                                        uint32_t files_checksum) {
  std::optional<Prepared> prepared = TakePrepared(checkpoint_id, files_checksum);
  if (!prepared.has_value() && !images_->VerifiedLately(checkpoint_id, files_checksum)) {
    RETURN_IF_ERROR(VerifyPart(*images_, checkpoint_id, files_checksum).status());
  }
  sequencer_->gate().Open();
  DSLIDE_FAILPOINT("shard.rollback.verified");
  absl::Status loaded;
  if (!prepared.has_value()) {
    // Both states at once may be more than the machine's memory.
    core.DropAllModels();
    prepared = {.checkpoint_id = checkpoint_id, .core = hooks_.make_core()};
    loaded = images_->Load(checkpoint_id, prepared->core).status();
  }
  DSLIDE_FAILPOINT("shard.rollback.loaded");
  if (loaded.ok()) {
    core.ReplaceState(std::move(prepared->core));
    DSLIDE_FAILPOINT("shard.rollback.replaced");
    if (hooks_.rows_replaced) loaded = hooks_.rows_replaced(core);
  }
  DSLIDE_FAILPOINT("shard.rollback.kept");
  if (!loaded.ok()) {
    hooks_.on_broken(loaded);
    return loaded;
  }
  hooks_.on_rolled_back();
  LogWarning("the state was taken back to a cluster checkpoint",
             {{"checkpoint_id", checkpoint_id}, {"rows", CountRows(core)}});
  return CutSize{.rows = CountRows(core)};
}

}  // namespace dslide::shard
