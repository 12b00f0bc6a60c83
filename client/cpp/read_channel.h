// A channel for operations that change nothing: each is a call of its own, outside of any step, so
// that the role reader is enough and the shard keeps nothing of it.

#pragma once

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/shard_client.h"
#include "client/cpp/step_channel.h"
#include "core/spec/model_spec.h"

namespace dslide {

struct ReadChannelOptions {
  std::string model;
  uint64_t topology_version = 0;
  ActivationType activations = ActivationType::kF32;
  // Deadline of one operation, counted from Send(); the shard client's own is no longer.
  absl::Duration timeout = absl::Seconds(30);
};

// Operations are tried once: a failed one is asked again by whoever knows what belongs together.
// Those that change something are InvalidArgument, said by the shard.
//
// Thread safety: safe from any thread.
class ReadChannel final : public StepChannel {
 public:
  // `shard` outlives the channel.
  ReadChannel(ShardClient& shard, ReadChannelOptions options);
  // Waits for what is under way: at most the timeout.
  ~ReadChannel() override;

  // The numbers of steps are not looked at.
  std::shared_ptr<PendingStep> Send(int64_t step, int64_t first_open_step, StepOp op) override;

 private:
  void End();

  ShardClient& shard_;
  const ReadChannelOptions options_;
  const absl::Status late_;  // of an operation that had no answer in time
  absl::Mutex mu_;
  int64_t running_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace dslide
