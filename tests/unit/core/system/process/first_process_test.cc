#include "core/system/process/first_process.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

namespace dslide {
namespace {

void EndBy(int signal_number) {
  EndOnSignals();
  std::raise(signal_number);
  std::_Exit(1);
}

TEST(FirstProcessTest, ASignalThatNobodyHandlesEndsIt) {
  EXPECT_EXIT(EndBy(SIGTERM), testing::ExitedWithCode(130), "");
  EXPECT_EXIT(EndBy(SIGINT), testing::ExitedWithCode(130), "");
}

TEST(FirstProcessTest, OthersHaveWhatTheKernelDoes) {
  EXPECT_EXIT(
      {
        EndOnSignalsAsFirstProcess();
        std::raise(SIGTERM);
      },
      testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace dslide
