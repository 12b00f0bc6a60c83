#include "services/coordinator/tasks/background_loop.h"

#include <utility>

namespace dslide::coordinator {

BackgroundLoop::BackgroundLoop(std::function<absl::Duration()> run_once)
    : run_once_(std::move(run_once)), thread_([this] { Loop(); }) {}

BackgroundLoop::~BackgroundLoop() {
  Stop();
  thread_.join();
}

void BackgroundLoop::Stop() {
  const absl::MutexLock lock(&mu_);
  stopped_ = true;
}

void BackgroundLoop::Loop() {
  absl::Duration pause = absl::ZeroDuration();
  for (;;) {
    {
      const absl::MutexLock lock(&mu_);
      if (mu_.AwaitWithTimeout(absl::Condition(&stopped_), pause)) return;
    }
    pause = run_once_();
  }
}

}  // namespace dslide::coordinator
