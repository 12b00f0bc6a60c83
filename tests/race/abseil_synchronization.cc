// Tells ThreadSanitizer what abseil's locks order.
//
// The sanitizer sees the locks of pthreads and atomics of code that it compiled. abseil of a
// distribution was compiled without it and waits by futexes, so every use of an absl::Mutex would
// look like a race. Here the functions that our code and the shared libraries call stand in front
// of abseil's own, which are called through, and say what happens before what.
//
// Linked into the programs and tests of builds with DSLIDE_SANITIZE=thread. Works because abseil is
// a shared library, whose symbols an executable may replace.

#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/base/options.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

// Of the sanitizer's runtime, declared in no installed header.
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
}

namespace {

#define DSLIDE_TEXT(name) DSLIDE_QUOTED(name)
#define DSLIDE_QUOTED(name) #name
constexpr char kInlineNamespace[] = DSLIDE_TEXT(ABSL_OPTION_INLINE_NAMESPACE_NAME);

// abseil's function of the mangled name _ZN<K>4absl<namespace><rest>.
template <typename Function>
Function* Real(const char* qualifiers, const char* rest) {
  const std::string name = std::string("_ZN") + qualifiers + "4absl" +
                           std::to_string(sizeof(kInlineNamespace) - 1) + kInlineNamespace + rest;
  void* const found = dlsym(RTLD_NEXT, name.c_str());
  if (found == nullptr) {
    std::fprintf(stderr, "no function %s in abseil's shared libraries\n", name.c_str());
    std::abort();
  }
  return reinterpret_cast<Function*>(found);
}

// While a lock is being handed over, abseil evaluates the conditions of those who wait, on the
// thread that lets go: under the lock, after what that thread has told the sanitizer.
class Handover {
 public:
  Handover() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~Handover() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
};

}  // namespace

// A member function is called with its object as the first argument.
namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  static auto* const real = Real<void(Mutex*)>("", "5Mutex4LockEv");
  {
    const Handover handover;
    real(this);
  }
  __tsan_acquire(this);
}

bool Mutex::TryLock() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  static auto* const real = Real<bool(Mutex*)>("", "5Mutex7TryLockEv");
  const bool locked = real(this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::Unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  static auto* const real = Real<void(Mutex*)>("", "5Mutex6UnlockEv");
  __tsan_release(this);
  const Handover handover;
  real(this);
}

void Mutex::Await(const Condition& condition) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  static auto* const real =
      Real<void(Mutex*, const Condition&)>("", "5Mutex5AwaitERKNS0_9ConditionE");
  __tsan_release(this);
  {
    const Handover handover;
    real(this, condition);
  }
  __tsan_acquire(this);
}

bool Mutex::AwaitWithTimeout(const Condition& condition,
                             Duration timeout) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  static auto* const real = Real<bool(Mutex*, const Condition&, Duration)>(
      "", "5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  __tsan_release(this);
  bool met = false;
  {
    const Handover handover;
    met = real(this, condition, timeout);
  }
  __tsan_acquire(this);
  return met;
}

bool Mutex::AwaitWithDeadline(const Condition& condition,
                              Time deadline) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  static auto* const real = Real<bool(Mutex*, const Condition&, Time)>(
      "", "5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  __tsan_release(this);
  bool met = false;
  {
    const Handover handover;
    met = real(this, condition, deadline);
  }
  __tsan_acquire(this);
  return met;
}

void Notification::Notify() {
  static auto* const real = Real<void(Notification*)>("", "12Notification6NotifyEv");
  __tsan_release(this);
  real(this);
}

void Notification::WaitForNotification() const {
  static auto* const real =
      Real<void(const Notification*)>("K", "12Notification19WaitForNotificationEv");
  real(this);
  __tsan_acquire(const_cast<Notification*>(this));
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  static auto* const real = Real<bool(const Notification*, Duration)>(
      "K", "12Notification30WaitForNotificationWithTimeoutENS0_8DurationE");
  const bool notified = real(this, timeout);
  if (notified) __tsan_acquire(const_cast<Notification*>(this));
  return notified;
}

bool BlockingCounter::DecrementCount() {
  static auto* const real = Real<bool(BlockingCounter*)>("", "15BlockingCounter14DecrementCountEv");
  __tsan_release(this);
  return real(this);
}

void BlockingCounter::Wait() {
  static auto* const real = Real<void(BlockingCounter*)>("", "15BlockingCounter4WaitEv");
  real(this);
  __tsan_acquire(this);
}

ABSL_NAMESPACE_END
}  // namespace absl
