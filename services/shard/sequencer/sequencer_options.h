// What a sequencer is told when it is made.

#pragma once

#include <cstdint>
#include <functional>

#include "services/shard/log/shard_log.h"
#include "services/shard/state/shard_core.h"

namespace dslide::shard {

struct SequencerOptions {
  // What may wait. Control requests may exceed both by `control_commands`.
  int64_t queue_bytes = int64_t{128} << 20;
  int64_t queue_commands = 4096;
  int64_t control_commands = 256;
  // False: there are none, and the owner's one thread does their work by RunOnce().
  bool threads = true;
  // Called when there may be work for RunOnce(). From any thread; may be null.
  std::function<void()> on_work = nullptr;
};

struct SequencerLog {
  // Null: nothing is logged. Outlives the sequencer, and reports to OnDurable() and OnLogFailed().
  ShardLog* log = nullptr;
  // Answers are held back until what they show is durable.
  bool answers_wait = false;
  // On the sequencer's thread, after a command that was logged. May be null.
  std::function<void(ShardCore&)> after_logged = nullptr;
};

}  // namespace dslide::shard
