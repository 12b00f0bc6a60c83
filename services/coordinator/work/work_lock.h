// Holds a mutex for a long piece of work.

#pragma once

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "services/coordinator/work/work_progress.h"

namespace dslide::coordinator {

// Not thread-safe itself.
class WorkLock {
 public:
  // Takes `mu` if it is free.
  explicit WorkLock(absl::Mutex* mu);
  // Waits until it is free, or until the work is to end. Others that wait come first now and then:
  // it asks again and again.
  WorkLock(absl::Mutex* mu, const WorkProgress& progress);
  ~WorkLock();
  WorkLock(const WorkLock&) = delete;
  WorkLock& operator=(const WorkLock&) = delete;

  bool held() const { return mu_ != nullptr; }

 private:
  absl::Mutex* mu_ = nullptr;  // null: not held
};

}  // namespace dslide::coordinator
