#include "client/cpp/step_channel.h"

#include <utility>

namespace dslide {

PendingStep::PendingStep(absl::Time deadline, absl::Status timeout_error)
    : deadline_(deadline),
      timeout_error_(std::move(timeout_error)),
      answer_(absl::UnknownError("the answer was taken before")) {}

void PendingStep::Complete(absl::StatusOr<ReplyBody> answer, Outcome outcome) {
  absl::MutexLock lock(&mu_);
  if (done_) return;
  answer_ = std::move(answer);
  outcome_ = outcome;
  done_ = true;
}

bool PendingStep::done() const {
  absl::MutexLock lock(&mu_);
  return done_;
}

absl::StatusOr<ReplyBody> PendingStep::Take() {
  absl::MutexLock lock(&mu_);
  if (!mu_.AwaitWithDeadline(absl::Condition(&done_), deadline_)) return timeout_error_;
  absl::StatusOr<ReplyBody> answer = absl::UnknownError("the answer was taken before");
  std::swap(answer, answer_);
  return answer;
}

Outcome PendingStep::outcome() const {
  absl::MutexLock lock(&mu_);
  return outcome_;
}

}  // namespace dslide
