#include "client/cli/console/interrupt.h"

#include <atomic>
#include <csignal>

namespace dslide::cli {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "used inside a signal handler");

void OnSignal(int) { interrupted.store(true, std::memory_order_relaxed); }

void Install(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  // Once: a second signal takes the default action.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  interrupted.store(false);
  Install(OnSignal);
}

InterruptGuard::~InterruptGuard() { Install(SIG_DFL); }

bool InterruptGuard::Interrupted() { return interrupted.load(std::memory_order_relaxed); }

}  // namespace dslide::cli
