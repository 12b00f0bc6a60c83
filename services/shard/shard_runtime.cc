#include "services/shard/shard_runtime.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/system/failpoint.h"
#include "core/wire/log/logged_command.h"

namespace dslide::shard {

ShardRuntime::ShardRuntime(ShardRuntimeParts parts, ShardRuntimeOptions options)
    : options_(std::move(options)),
      core_(std::move(parts.core)),
      durable_(parts.durable),
      metrics_(parts.metrics),
      sequencer_(*core_, options_.queue, metrics_, parts.clock, LogOfSequencer()),
      admission_(&sequencer_, options_.knows_clients),
      participant_(MakeParticipant(parts.images)) {}

SequencerLog ShardRuntime::LogOfSequencer() {
  metrics_.PublishSizes(*core_);
  if (durable_ == nullptr) return {};
  return {.log = &durable_->log(),
          .answers_wait = options_.durability == Durability::kLog,
          .after_logged = [this](ShardCore& core) { durable_->MaybeTakeImage(core); }};
}

std::unique_ptr<CheckpointParticipant> ShardRuntime::MakeParticipant(CheckpointImages* images) {
  if (images == nullptr) return nullptr;
  ParticipantHooks hooks;
  hooks.settle = [this](ShardCore& core) -> absl::StatusOr<uint64_t> {
    if (durable_ != nullptr) return durable_->SettleTables(core);
    core.SettleTables();
    return 0;
  };
  hooks.rows_replaced = [this](ShardCore& core) { return KeepReplacedRows(core); };
  hooks.on_broken = [this](const absl::Status& why) { OnBroken(why); };
  hooks.on_rolled_back = [this] { admission_.OnRolledBack(); };
  hooks.make_core = [this] { return ShardCore(options_.core()); };
  return std::make_unique<CheckpointParticipant>(&sequencer_, images, std::move(hooks));
}

absl::Status ShardRuntime::Begin() {
  if (durable_ == nullptr) return absl::OkStatus();
  DurableStateHooks hooks;
  hooks.log.on_durable = [this](uint64_t lsn) { sequencer_.OnDurable(lsn); };
  hooks.log.on_sync = [this](absl::Duration took) { metrics_.RecordLogSync(took); };
  hooks.log.on_failed = [this](const absl::Status& why) { OnBroken(why); };
  hooks.on_image = [this](absl::Duration took) { metrics_.RecordImage(took); };
  hooks.on_written = [this] {
    // Refused only while the shard stops, which ends the image itself.
    sequencer_.SubmitTask([this](ShardCore& core) { durable_->MaybeTakeImage(core); })
        .IgnoreError();
  };
  const CoreLimits limits = options_.core();
  return sequencer_.RunTask(
      [&](ShardCore& core) { return durable_->Begin(std::move(hooks), limits, core); });
}

absl::Status ShardRuntime::Own(ShardCore& core, const SetOwnershipCommand& own,
                               bool rollback_pending) {
  RETURN_IF_ERROR(sequencer_.ApplyInTask(core, own, wire::LogOwnership(own)).reply->status);
  DSLIDE_FAILPOINT("shard.owned");
  admission_.OnOwned(rollback_pending);
  return absl::OkStatus();
}

void ShardRuntime::Fence(const absl::Status& why) {
  sequencer_.Fence(StatusWithReason(
      absl::StatusCode::kFailedPrecondition, reason::kFenced,
      absl::StrCat("this shard process was replaced by a newer one: refresh the cluster map (",
                   why.message(), ")")));
}

absl::Status ShardRuntime::KeepReplacedRows(ShardCore& core) {
  if (durable_ == nullptr) return absl::OkStatus();
  absl::Status kept = durable_->ForceImage(core);
  // The log does not know of these rows: what it would replay after a crash are other ones.
  if (!kept.ok()) OnBroken(kept);
  return kept;
}

void ShardRuntime::OnBroken(const absl::Status& why) {
  sequencer_.OnLogFailed(why);
  broken_ = true;
  options_.on_broken(why);
}

}  // namespace dslide::shard
