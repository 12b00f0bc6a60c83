// Which requests wait while a cluster checkpoint is being agreed on.
//
// All shards of a cluster are to show the same steps of every client. So, from the freeze to the
// cut, a client's operations that change rows wait if their step is higher than any that has
// changed rows here; reads do not wait, but nothing of a client passes what already waits of it.
// The coordinator takes the highest such step k over all shards, admits steps up to k everywhere,
// and has the cut made when k is complete everywhere. Where all steps up to the highest that may
// change rows are complete, operations of later ones wait whatever they do: the other shards and
// the cut have the processors for themselves.
//
// A client's step is complete here when none of its contexts is left and the client either has
// changed rows in it, or says by a higher first_open_step that it is over. For that a step's
// EmbedBackward, where there is one, is its last operation on a shard (docs/operate/checkpoint.md).
//
// Not part of the state machine: it only decides when commands are applied, not what they do.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/protocol/client_step.h"
#include "core/protocol/commands.h"
#include "services/shard/state/step_contexts.h"

namespace dslide::shard {

// Not thread-safe: of the thread that applies commands. `contexts`: those of the core, as they are
// at the time of the call.
class StepGate {
 public:
  bool frozen() const { return frozen_; }
  uint64_t checkpoint_id() const { return checkpoint_id_; }

  // Starts to hold. A repetition changes nothing; another checkpoint_id begins anew.
  void Freeze(uint64_t checkpoint_id);
  // Stops to hold.
  void Open();

  // The highest step that has changed rows, for each client that has changed any.
  static std::vector<ClientStep> Changed(const StepContexts& contexts);

  // Whether a step of any client is under way that is not above those that have changed rows.
  static bool AnyBegun(const StepContexts& contexts);

  // The client's steps up to this one need not wait.
  void Admit(const ClientId& client, int64_t up_to);

  // Not followed any more: it was retired.
  void Drop(const ClientId& client) { admitted_.erase(client); }

  // Whether the command has to wait. Asked in the order of arrival.
  bool MustWait(const Command& command, const StepContexts& contexts) const;
  // It waits from now on; or nothing of the client waits any more.
  void NoteWaiting(const Command& command);
  void NoteNoneWaiting(const ClientId& client);

  // The clients whose admitted steps are not complete. Each with the step up to which it should be
  // admitted instead, 0 when it need not be: where a change of a later step waits, what would
  // complete the admitted ones may stand behind it, and so it would behind those of all steps whose
  // head forward was answered. These are named once, or a client that goes on and on would never
  // be complete; afterwards it is the first that waits. Only of clients that were admitted by
  // Admit().
  std::vector<ClientStep> Incomplete(const StepContexts& contexts) const;

 private:
  struct Waiting {
    int64_t first_changing_step = 0;  // of the first operation that waits for its own sake
    int64_t first_open_step = 0;      // the highest that was said by those that wait
  };
  int64_t LimitOf(const ClientId& client, const StepContexts& contexts) const;
  bool IsComplete(const ClientId& client, int64_t limit, const StepContexts& contexts) const;

  bool frozen_ = false;
  uint64_t checkpoint_id_ = 0;
  struct Admitted {
    int64_t first = 0;  // what was admitted at first
    int64_t limit = 0;
  };
  std::map<ClientId, Admitted> admitted_;
  std::map<ClientId, Waiting> waiting_;
};

// The client that a command belongs to, if it is numbered by a client's sequence.
const ClientId* SequencedClient(const Command& command);

}  // namespace dslide::shard
