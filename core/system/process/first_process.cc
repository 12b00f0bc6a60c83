#include "core/system/process/first_process.h"

#include <signal.h>
#include <unistd.h>

namespace dslide {
namespace {

constexpr int kExitInterrupted = 130;

void EndByWish(int /*signal_number*/) { _exit(kExitInterrupted); }

}  // namespace

void EndOnSignals() {
  struct sigaction action = {};
  action.sa_handler = EndByWish;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void EndOnSignalsAsFirstProcess() {
  if (getpid() == 1) EndOnSignals();
}

}  // namespace dslide
