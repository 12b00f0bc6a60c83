#include "services/coordinator/work/work_lock.h"

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace dslide::coordinator {
namespace {

// A person who has pressed Ctrl-C does not notice it, and what is waited for takes seconds.
constexpr absl::Duration kPause = absl::Milliseconds(20);

}  // namespace

// The analysis knows no lock that may be held.
WorkLock::WorkLock(absl::Mutex* mu) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (mu->TryLock()) mu_ = mu;
}

WorkLock::WorkLock(absl::Mutex* mu, const WorkProgress& progress) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  while (progress.Check().ok()) {
    if (mu->TryLock()) {
      mu_ = mu;
      return;
    }
    absl::SleepFor(kPause);
  }
}

WorkLock::~WorkLock() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (mu_ != nullptr) mu_->Unlock();
}

}  // namespace dslide::coordinator
