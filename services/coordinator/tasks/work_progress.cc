#include "services/coordinator/tasks/work_progress.h"

#include <utility>

namespace dslide::coordinator {

void WorkProgress::Begin(absl::string_view stage, size_t shards) {
  const absl::MutexLock lock(&mu_);
  view_ = {.stage = std::string(stage), .shards_done = 0, .shards = static_cast<int64_t>(shards)};
}

void WorkProgress::ShardDone() {
  const absl::MutexLock lock(&mu_);
  ++view_.shards_done;
}

WorkProgress::View WorkProgress::view() const {
  const absl::MutexLock lock(&mu_);
  return view_;
}

void WorkProgress::Cancel(const absl::Status& why) {
  const absl::MutexLock lock(&mu_);
  if (!why_.ok()) return;
  why_ = why;
  for (const std::function<void()>* interrupt : interrupts_) (*interrupt)();
}

absl::Status WorkProgress::Check() const {
  const absl::MutexLock lock(&mu_);
  return why_;
}

WorkProgress::Interrupt::Interrupt(WorkProgress& progress, std::function<void()> interrupt)
    : progress_(progress), interrupt_(std::move(interrupt)) {
  const absl::MutexLock lock(&progress_.mu_);
  progress_.interrupts_.push_back(&interrupt_);
  if (!progress_.why_.ok()) interrupt_();
}

WorkProgress::Interrupt::~Interrupt() {
  const absl::MutexLock lock(&progress_.mu_);
  std::erase(progress_.interrupts_, &interrupt_);
}

}  // namespace dslide::coordinator
