// Something that one piece of work has at a time, and for long. Only who has the turn reaches it.

#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/status_macros.h"
#include "services/coordinator/tasks/work_progress.h"

namespace dslide::coordinator {

// Thread safety: safe from any thread. It outlives its turns.
template <typename T>
class Exclusive {
 public:
  // A null value is nobody's.
  explicit Exclusive(std::unique_ptr<T> value) : value_(std::move(value)) {}

  // Ends the turn when it is destroyed, on any thread.
  class Turn {
   public:
    Turn(Turn&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
    Turn& operator=(Turn&& other) noexcept {
      std::swap(of_, other.of_);
      return *this;
    }
    ~Turn() {
      if (of_ != nullptr) of_->Release();
    }
    T* operator->() const { return of_->value_.get(); }

   private:
    friend class Exclusive;
    explicit Turn(Exclusive* of) : of_(of) {}
    Exclusive* of_;  // null: moved from
  };

  bool has_value() const { return value_ != nullptr; }
  bool taken() const {
    const absl::MutexLock lock(&mu_);
    return taken_;
  }

  // Nothing while somebody else has it.
  std::optional<Turn> TryAcquire() {
    const absl::MutexLock lock(&mu_);
    if (taken_) return std::nullopt;
    taken_ = true;
    return Turn(this);
  }

  // Waits until it is free.
  Turn Acquire() {
    const absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(this, &Exclusive::Free));
    taken_ = true;
    return Turn(this);
  }

  // The same, but no longer than the work goes on. Errors: why it is to end.
  absl::StatusOr<Turn> Acquire(const WorkProgress& progress) {
    // A person who has pressed Ctrl-C does not notice it, and what is waited for takes seconds.
    constexpr absl::Duration kPause = absl::Milliseconds(20);
    const absl::MutexLock lock(&mu_);
    do {
      RETURN_IF_ERROR(progress.Check());
    } while (!mu_.AwaitWithTimeout(absl::Condition(this, &Exclusive::Free), kPause));
    taken_ = true;
    return Turn(this);
  }

 private:
  bool Free() const ABSL_SHARED_LOCKS_REQUIRED(mu_) { return !taken_; }
  void Release() {
    const absl::MutexLock lock(&mu_);
    taken_ = false;
  }

  const std::unique_ptr<T> value_;  // guarded by the turn
  mutable absl::Mutex mu_;
  bool taken_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace dslide::coordinator
