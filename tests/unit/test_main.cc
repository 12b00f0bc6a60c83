// What every test program begins with: GoogleTest, and the name of the case in which a program
// crashed, which GoogleTest does not tell.

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

// Written before each case, read by the signal handler.
char running_case[512] = "no case";

class CaseWatcher : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& info) override {
    std::snprintf(running_case, sizeof(running_case), "%s.%s", info.test_suite_name(), info.name());
  }
};

extern "C" void TellCase(int signal_number) {
  constexpr char kText[] = "\ncrashed in ";
  // Nothing can be done about a standard error that takes nothing.
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, kText, sizeof(kText) - 1);
  written = write(STDERR_FILENO, running_case, std::strlen(running_case));
  written = write(STDERR_FILENO, "\n", 1);
  std::signal(signal_number, SIG_DFL);
  raise(signal_number);
}

}  // namespace

int main(int argc, char** argv) {
  // As the programs do (library_logs.h).
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  testing::InitGoogleMock(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new CaseWatcher);
  for (const int fatal : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV}) {
    std::signal(fatal, TellCase);
  }
  return RUN_ALL_TESTS();
}
