// SIGTERM and SIGINT as a blocking call: nothing of ours runs inside a signal handler.

#pragma once

#include <thread>

#include "absl/synchronization/notification.h"

namespace dslide {

// Make one first thing in main(), before any thread exists: the signals are blocked in the calling
// thread, later threads inherit that, and one thread of this object takes them one by one. The
// first signal wakes Wait(); a second one ends the process at once with exit code 128 + signal.
// SIGPIPE is ignored from then on.
//
// Thread safety: safe from any thread. One per process.
class SignalWaiter {
 public:
  SignalWaiter();
  ~SignalWaiter();
  SignalWaiter(const SignalWaiter&) = delete;
  SignalWaiter& operator=(const SignalWaiter&) = delete;

  // Blocks until the first signal or Trigger(). Returns the signal, or 0 for Trigger().
  int Wait();
  // Wakes Wait() without a signal, for a process that wants to stop by itself.
  void Trigger();

 private:
  void Run();

  absl::Notification first_;  // self-synchronised
  int signal_ = 0;            // written before first_ is notified, read after
  int pipe_[2] = {-1, -1};    // constant after construction; Trigger and the destructor write to it
  std::thread thread_;
};

}  // namespace dslide
