// Settings and results that every client call shares.

#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/ids.h"
#include "core/protocol/commands.h"

namespace dslide {

class LocalShard;

// How often and how fast a call that is safe to repeat is repeated after UNAVAILABLE. All attempts
// together end at the call's deadline.
struct RetryOptions {
  absl::Duration first_delay = absl::Milliseconds(50);  // > 0
  absl::Duration max_delay = absl::Seconds(2);          // >= first_delay
  double multiplier = 2.0;                              // >= 1

  // Pause before attempt `attempt` (1 is the first repetition): exponential, between half and the
  // whole of the nominal pause, spread by `salt` so that clients do not march in step.
  absl::Duration Delay(int attempt, uint64_t salt) const;
};

struct ClientOptions {
  // [a-z0-9-]{1,64}; names the training job in every mutation.
  std::string job = "default";
  // Deadline of every call unless the call says otherwise: there is no call without one.
  absl::Duration timeout = absl::Seconds(30);
  RetryOptions retry;
  // What every call sends as x-request-id and its errors name, so that they are found in the
  // servers' logs: 1 to 64 visible ASCII characters. Empty or no such text: a new one for each call
  // and for each step stream.
  std::string request_id = {};
  // Hears how long each answered step operation took from its sending to its answer, the shard's
  // own work and queue included. On threads of gRPC; must not block. May be null.
  std::function<void(ShardId shard, absl::Duration round_trip)> on_round_trip = nullptr;
  // The shard of this process that has an address; null: it is of another one. Reads and TopK then
  // go to it without gRPC. It outlives the client. May be null.
  std::function<LocalShard*(const std::string& address)> local_shards = nullptr;
};

// What is known about a mutation after its call has returned.
enum class Outcome {
  kApplied,     // exactly once
  kNotApplied,  // and it will not be
  kUnknown,     // sent, but no answer arrived before the deadline
};

const char* OutcomeName(Outcome outcome);

// The outcome that a status proves by itself. An error that the server itself answered (it carries
// a reason word, or a code that only the application uses) proves that nothing changed; a lost
// connection or a passed deadline proves nothing.
Outcome OutcomeOf(const absl::Status& status);

// 16 bytes from the operating system: who this client is. A restarted client is a new one.
ClientId NewClientId();

}  // namespace dslide
