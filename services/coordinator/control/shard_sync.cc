#include "services/coordinator/control/shard_sync.h"

#include <vector>

#include "core/base/reason.h"
#include "core/protocol/reason_words.h"
#include "core/system/log.h"

namespace dslide::coordinator {
namespace {

constexpr absl::Duration kSyncPause = absl::Milliseconds(200);
// Each try reads a whole checkpoint, and only a person can change what it finds.
constexpr absl::Duration kRollbackPause = absl::Seconds(10);

}  // namespace

absl::Duration ShardSync::RunOnce() {
  if (const absl::Status status = RollbackIfRequested(); !status.ok()) {
    // Fresh rows would be worse than none.
    LogError(
        "a shard came back without its rows, or a restore was not finished, and the cluster "
        "checkpoint cannot be restored: put back the shard's data directory from a copy, name an "
        "older one with dslide checkpoint restore, or remove the coordinator's checkpoints to "
        "begin with fresh rows",
        {{"error", status.message()}});
    return kRollbackPause;
  }
  return SyncReturned() ? absl::ZeroDuration() : kSyncPause;
}

absl::Status ShardSync::RollbackIfRequested() {
  if (!registry_->rollback_requested()) return absl::OkStatus();
  // Without one, what came back empty stays so: the loss is reported where the models are made.
  const absl::StatusOr<std::vector<Manifest>> taken = checkpoints_->List();
  if (taken.ok() && taken->empty()) return registry_->ClearRollbackRequest();
  WorkProgress progress;  // nobody looks at it
  return checkpoints_->Restore(registry_->rollback_target(), progress).status();
}

bool ShardSync::SyncReturned() {
  bool all_done = true;
  for (const auto& [shard, generation] : registry_->Returned()) {
    const absl::Status status = models_->Acquire()->Sync(shard, generation);
    if (status.ok()) {
      registry_->SetSynced(shard, generation);
      continue;
    }
    all_done = false;
    // At an end that was asked for there is nothing to do about it.
    if (ReasonOf(status) == reason::kShuttingDown) continue;
    LogWarning("a shard lacks models; trying again",
               {{"shard", shard.value()}, {"error", status.ToString()}});
  }
  return all_done;
}

}  // namespace dslide::coordinator
