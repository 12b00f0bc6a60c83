#include "client/cli/console/interrupt.h"

#include <time.h>

#include <atomic>
#include <csignal>
#include <cstdint>

namespace dslide::cli {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "used inside a signal handler");

// Programs that pass a signal on, as timeout(1) does, send it to the process and to its group: that
// is one wish. Nobody presses Ctrl-C twice as fast.
constexpr int64_t kOneWishMs = 200;

std::atomic<int64_t> first_ms{0};
static_assert(std::atomic<int64_t>::is_always_lock_free, "used inside a signal handler");

int64_t NowMs() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

// What signals did before.
struct sigaction before_interrupt = {};
struct sigaction before_termination = {};

void RestoreSignals() {
  sigaction(SIGINT, &before_interrupt, nullptr);
  sigaction(SIGTERM, &before_termination, nullptr);
}

// The first one is heard; a later one does what it did before.
void OnSignal(int signal_number) {
  if (!interrupted.exchange(true)) {
    first_ms.store(NowMs());
  } else if (NowMs() - first_ms.load() > kOneWishMs) {
    RestoreSignals();
    std::raise(signal_number);
  }
}

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupted.store(false);
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &before_interrupt);
  sigaction(SIGTERM, &action, &before_termination);
}

InterruptGuard::~InterruptGuard() { RestoreSignals(); }

void InterruptGuard::Interrupt() { interrupted.store(true); }

bool InterruptGuard::Interrupted() { return interrupted.load(std::memory_order_relaxed); }

}  // namespace dslide::cli
