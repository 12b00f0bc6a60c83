#include "services/shard/rpc/client_admission.h"

#include "core/base/reason.h"
#include "core/protocol/reason_words.h"
#include "core/system/log.h"

namespace dslide::shard {

ClientAdmission::ClientAdmission(Sequencer* sequencer, bool knows_clients)
    : sequencer_(sequencer), knows_clients_(knows_clients) {
  sequencer_->CloseToClients(
      StatusWithReason(absl::StatusCode::kUnavailable, reason::kNotOwnedYet,
                       "the shard was started and waits for the coordinator: send it again"));
}

void ClientAdmission::Open() {
  open_ = true;
  sequencer_->OpenToClients();
}

void ClientAdmission::OnOwned(bool rollback_pending) {
  const absl::MutexLock lock(&mu_);
  const bool again = owned_;
  owned_ = true;
  if (open_) return;
  if (!rollback_pending || knows_clients_ || rolled_back_) return Open();
  sequencer_->CloseToClients(StatusWithReason(
      absl::StatusCode::kUnavailable, reason::kAwaitingRestore,
      "the shard came back without its rows, and the cluster is to be taken back to a checkpoint: "
      "send it again; if that goes on, the coordinator's log says what the restore waits for"));
  if (!again) LogWarning("clients wait until the cluster was taken back to a checkpoint");
}

void ClientAdmission::OnHeartbeat(bool rollback_pending) {
  const absl::MutexLock lock(&mu_);
  if (rollback_pending || !owned_ || open_) return;
  LogWarning("the cluster is not taken back to a checkpoint: clients are let in");
  Open();
}

void ClientAdmission::OnRolledBack() {
  const absl::MutexLock lock(&mu_);
  rolled_back_ = true;
  if (owned_ && !open_) Open();
}

bool ClientAdmission::waiting() const {
  const absl::MutexLock lock(&mu_);
  return owned_ && !open_;
}

}  // namespace dslide::shard
