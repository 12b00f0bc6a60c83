// Work that takes long and is seldom asked for, each piece on a thread of its own.

#pragma once

#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace dslide::shard {

// Thread safety: safe from any thread.
class BackgroundTasks {
 public:
  BackgroundTasks() = default;
  // Waits for what runs.
  ~BackgroundTasks() {
    const absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(
        +[](int* running) { return *running == 0; }, &running_));
  }
  BackgroundTasks(const BackgroundTasks&) = delete;
  BackgroundTasks& operator=(const BackgroundTasks&) = delete;

  void Run(std::function<void()> work) {
    {
      const absl::MutexLock lock(&mu_);
      ++running_;
    }
    std::thread([this, work = std::move(work)] {
      work();
      const absl::MutexLock lock(&mu_);
      --running_;
    }).detach();
  }

 private:
  absl::Mutex mu_;
  int running_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace dslide::shard
