// The ordered conversation of one client with one shard, as a trainer sees it.

#pragma once

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/client_options.h"
#include "core/protocol/commands.h"

namespace dslide {

// One operation that was sent: the place where its answer will be.
//
// Thread safety: safe from any thread. Shared by the channel, which completes it, and the caller.
class PendingStep {
 public:
  // Wait() gives up at `deadline` with `timeout_error`.
  PendingStep(absl::Time deadline, absl::Status timeout_error);

  // Stores the answer and wakes the waiters. Only the first call counts.
  void Complete(absl::StatusOr<ReplyBody> answer, Outcome outcome);

  bool done() const;
  absl::Time deadline() const { return deadline_; }

  // Blocks until the answer is there or the deadline has passed; an answer can be taken once.
  // Errors: the shard's; DeadlineExceeded; Unavailable when the shard could not be reached again;
  // DataLoss when it came back without updates that it had confirmed.
  absl::StatusOr<ReplyBody> Take();

  // kUnknown until the answer is there.
  Outcome outcome() const;

 private:
  const absl::Time deadline_;
  const absl::Status timeout_error_;
  mutable absl::Mutex mu_;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  absl::StatusOr<ReplyBody> answer_ ABSL_GUARDED_BY(mu_);
  Outcome outcome_ ABSL_GUARDED_BY(mu_) = Outcome::kUnknown;
};

// Operations are applied by the shard, and answered, in the order of Send(). An answer that is an
// error concerns its own operation only.
class StepChannel {
 public:
  virtual ~StepChannel() = default;

  // Queues one operation of the caller's step `step` and returns at once. `first_open_step`: the
  // caller has no further operation for steps below it.
  virtual std::shared_ptr<PendingStep> Send(int64_t step, int64_t first_open_step, StepOp op) = 0;
};

}  // namespace dslide
