// Decides which requests wait while a cluster checkpoint is prepared (docs/operate/checkpoint.md).
//
// A checkpoint shows the same steps of each client on all shards. The gate is closed from the
// freeze to the cut. Each client then has a limit: the highest of its steps that has changed rows
// here.
//
//   - An operation that changes rows waits if its step is above the limit.
//   - A read does not wait.
//   - An operation waits if an earlier one of its client waits: the order of a client is kept.
//   - When all steps up to the limit are complete, every operation above it waits. The processors
//     are then free for the other shards and for the cut.
//
// The coordinator finds k, the highest limit over all shards. It admits steps up to k on all of
// them, and cuts when k is complete on all of them.
//
// A step is complete here when two things hold. None of its contexts is left. And the client has
// changed rows in it, or has sent a higher first_open_step. So EmbedBackward, where a step has one,
// must be its last operation on a shard.
//
// The gate is not part of the state machine. It decides when a command is applied, never what the
// command does.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/protocol/client_step.h"
#include "core/protocol/commands.h"
#include "services/shard/state/step_contexts.h"

namespace dslide::shard {

// Not thread-safe: the thread that applies commands owns it. `contexts` are those of the core at
// the time of the call.
class StepGate {
 public:
  bool frozen() const { return frozen_; }
  uint64_t checkpoint_id() const { return checkpoint_id_; }

  // Closes the gate. The same checkpoint_id again changes nothing; another one starts over.
  void Freeze(uint64_t checkpoint_id);
  // Opens the gate and forgets what was admitted.
  void Open();

  // For each client that has changed rows: the highest step in which it has.
  static std::vector<ClientStep> Changed(const StepContexts& contexts);

  // True if some client has begun a step and not completed it, up to the highest that has changed
  // rows.
  static bool AnyBegun(const StepContexts& contexts);

  // Raises the client's limit to this step.
  void Admit(const ClientId& client, int64_t up_to);

  // Forgets a client that was evicted.
  void Drop(const ClientId& client) { admitted_.erase(client); }
  // The same of those that have closed: they complete no step any more, and who closes in good
  // order has completed all of them.
  void DropClosed(absl::FunctionRef<bool(const ClientId&)> is_closed) {
    std::erase_if(admitted_, [&](const auto& entry) { return is_closed(entry.first); });
  }

  // True if the command has to wait. Call it in the order of arrival.
  bool MustWait(const Command& command, const StepContexts& contexts) const;
  // Records that the command waits from now on.
  void NoteWaiting(const Command& command);
  // Records that nothing of the client waits any more.
  void NoteNoneWaiting(const ClientId& client);

  // Returns the clients of Admit() whose admitted steps are not complete, each with a step.
  //
  // Step 0: the client completes them by itself. Another step: a change of a later step waits, and
  // what completes the admitted steps may be queued behind it. The caller then admits up to the
  // returned step. The first time that is the last step whose head forward was answered. Later it
  // is the first step that waits, so that a client which begins step after step still gets to an
  // end.
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
