// Work that is done again and again on a thread of its own.

#pragma once

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace dslide::coordinator {

// Thread safety: safe from any thread.
class BackgroundLoop {
 public:
  // Calls `run_once` from now on, each time after the pause that the last call returned. What it
  // uses outlives this.
  explicit BackgroundLoop(std::function<absl::Duration()> run_once);
  // Stops, and waits for the call that runs.
  ~BackgroundLoop();
  BackgroundLoop(const BackgroundLoop&) = delete;
  BackgroundLoop& operator=(const BackgroundLoop&) = delete;

  // No further call; does not wait. Repeating it is fine.
  void Stop();

 private:
  void Loop();

  const std::function<absl::Duration()> run_once_;
  absl::Mutex mu_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace dslide::coordinator
