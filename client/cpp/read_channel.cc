#include "client/cpp/read_channel.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace dslide {

ReadChannel::ReadChannel(ShardClient& shard, ReadChannelOptions options)
    : shard_(shard),
      options_(std::move(options)),
      late_(absl::DeadlineExceededError(absl::StrCat(shard_.peer(), " did not answer within ",
                                                     absl::FormatDuration(options_.timeout), "; ",
                                                     kSilentShardRemedy))) {}

ReadChannel::~ReadChannel() {
  const absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(
      +[](int64_t* running) { return *running == 0; }, &running_));
}

void ReadChannel::End() {
  const absl::MutexLock lock(&mu_);
  --running_;
}

std::shared_ptr<PendingStep> ReadChannel::Send(int64_t /*step*/, int64_t /*first_open_step*/,
                                               StepOp op) {
  // Shared by the caller and the callback.
  auto pending = std::make_shared<PendingStep>(absl::Now() + options_.timeout, late_);
  {
    const absl::MutexLock lock(&mu_);
    ++running_;
  }
  shard_.ReadAsync(
      {.model = options_.model, .topology_version = options_.topology_version, .op = std::move(op)},
      options_.activations, [this, pending](absl::StatusOr<ReplyBody> answer) {
        const Outcome outcome = answer.ok() ? Outcome::kApplied : Outcome::kNotApplied;
        pending->Complete(std::move(answer), outcome);
        End();
      });
  return pending;
}

}  // namespace dslide
