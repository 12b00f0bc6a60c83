// The hot path to one shard: a long-lived bidirectional stream with reconnect.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/cpp/client_options.h"
#include "client/cpp/shard_client.h"
#include "client/cpp/step_channel.h"
#include "core/spec/model_spec.h"

namespace dslide {

class WireCounters;

struct ShardStreamOptions {
  std::string job;
  ClientId client = {};
  std::string model;
  uint64_t topology_version = 0;
  ActivationType activations = ActivationType::kF32;
  // Deadline of one operation, counted from Send(). A broken connection is mended within it.
  absl::Duration timeout = absl::Seconds(30);
  RetryOptions retry;
  // As ClientOptions::request_id; one for all connections of the stream.
  std::string request_id = {};
  // As ClientOptions::on_round_trip.
  std::function<void(ShardId shard, absl::Duration round_trip)> on_round_trip = nullptr;
};

// A shard that is too busy for a request (RESOURCE_EXHAUSTED, UNAVAILABLE) gets it again after the
// pause it asks for, until the deadline; what was sent behind it keeps its order.
//
// Operations get the sequence numbers 1, 2, 3, ... of this client on this shard. When the
// connection breaks, the stream asks the shard which sequence it expects next, and sends everything
// unanswered again, unchanged and in order, on a new stream: the shard applies nothing twice and
// repeats the answers it had given. When the shard came back without updates that it had confirmed,
// every operation fails with DataLoss.
//
// Thread safety: safe from any thread; the order of concurrent Send() calls is theirs to fix.
class ShardStream final : public StepChannel {
 public:
  // Introduces the client to the shard (Hello), so that an unreachable shard shows here.
  // `shard` and `counters` must outlive the stream.
  // Errors: Unavailable or DeadlineExceeded naming the shard; those of the shard.
  static absl::StatusOr<std::unique_ptr<ShardStream>> Open(ShardClient& shard,
                                                           ShardStreamOptions options,
                                                           WireCounters& counters);

  // Gives up what is unanswered (Cancelled, outcome unknown). The shard keeps the client's state
  // until CloseClient.
  ~ShardStream() override;

  std::shared_ptr<PendingStep> Send(int64_t step, int64_t first_open_step, StepOp op) override;

  // Ends the stream and retires the client at the shard: its contexts and cached answers are freed.
  // Errors: those of ShardClient::CloseClient().
  absl::Status Close();

  // Times that the stream was opened anew after a break.
  int64_t reconnects() const;

 private:
  struct Impl;
  explicit ShardStream(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;  // shared with the callbacks of a stream that is being cancelled
};

// Closes all of them at the same time, so that many shards that are gone cost no more than one.
// That a shard cannot be told is no matter: it forgets silent clients by itself.
void CloseStreams(absl::Span<const std::unique_ptr<ShardStream>> streams);

}  // namespace dslide
