// What a sequencer is asked to do.

#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/protocol/commands.h"
#include "core/wire/log/logged_command.h"
#include "services/shard/state/shard_core.h"

namespace dslide::shard {

struct SequencerRequest {
  Command command;
  // What the log keeps of it; needed when there is one and the command may change the state.
  wire::LoggedCommand logged = {};
  // Memory of the command, for the queue's budget.
  int64_t bytes = 0;
  bool control = false;  // small, and needed when the shard is overloaded: uses reserved places
  // May be applied on the thread of Submit(), which is also that of `done` then, when the
  // sequencer has nothing else to do. For commands that change nothing.
  bool run_here = false;
  // How long the caller waits for the answer. A request that would spend half of it in the queue
  // is refused at once: answered too late, it would cost as much and help nobody.
  absl::Duration patience = absl::InfiniteDuration();
  // Called right before the command is applied. An error becomes the answer, and nothing is
  // applied. For callers that may be gone. May be null.
  std::function<absl::Status()> admit = nullptr;
  // Called once, on a thread of the sequencer, in the order of the commands. Must not block.
  std::function<void(Answer)> done;
};

}  // namespace dslide::shard
