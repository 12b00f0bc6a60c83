// Whether a shard that was started talks to clients yet: their greetings and mutations.
//
// A shard that came back without its rows knows nobody, and would call everything lost that its
// clients have confirmations of; the coordinator may be about to take the cluster back to a
// checkpoint that has most of it. So it stays silent until that has happened, or will not.

#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "services/shard/sequencer/sequencer.h"

namespace dslide::shard {

// Once clients are let in, they stay in. Thread safety: safe from any thread.
class ClientAdmission {
 public:
  // Refuses clients from now on (NOT_OWNED_YET). `sequencer` outlives it. knows_clients: the state
  // has those of before, with the rows that they changed: nothing to wait for but the generation.
  ClientAdmission(Sequencer* sequencer, bool knows_clients);

  // The shard has its generation. rollback_pending: the coordinator may take the cluster back.
  void OnOwned(bool rollback_pending);
  // What the coordinator has said since. Nothing before OnOwned().
  void OnHeartbeat(bool rollback_pending);
  // The state is now that of a checkpoint of the cluster.
  void OnRolledBack();

  // The shard has its generation, and still refuses clients (AWAITING_RESTORE).
  bool waiting() const;

 private:
  void Open() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Sequencer* const sequencer_;
  const bool knows_clients_;
  mutable absl::Mutex mu_;
  bool owned_ ABSL_GUARDED_BY(mu_) = false;
  bool rolled_back_ ABSL_GUARDED_BY(mu_) = false;
  bool open_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace dslide::shard
