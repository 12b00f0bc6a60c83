// Compiled in here, whatever the build says.
#define DSLIDE_FAILPOINTS
#include "core/system/failpoint.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace dslide {
namespace {

// The setting is read before main(): each death is one of a process that is started anew.
class FailpointTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void TearDown() override { unsetenv("DSLIDE_FAILPOINTS"); }
  static void Arm(const char* setting) { setenv("DSLIDE_FAILPOINTS", setting, 1); }
};

void Turns() {
  for (int turn = 1; turn <= 3; ++turn) {
    DSLIDE_FAILPOINT("test.elsewhere");
    std::fprintf(stderr, "turn %d\n", turn);
    DSLIDE_FAILPOINT("test.here");
  }
  std::_Exit(0);
}

TEST_F(FailpointTest, TheFirstTimeIsTheDefault) {
  Arm("test.here");
  EXPECT_EXIT(Turns(), testing::KilledBySignal(SIGKILL), "^turn 1\nfailpoint test.here reached 1");
}

TEST_F(FailpointTest, ALaterTimeMayBeNamed) {
  Arm("test.here:3");
  EXPECT_EXIT(Turns(), testing::KilledBySignal(SIGKILL), "turn 3\nfailpoint test.here reached 3");
}

TEST_F(FailpointTest, NothingHappensUnarmedOrAtOtherPlaces) {
  EXPECT_EXIT(Turns(), testing::ExitedWithCode(0), "turn 3\n$");
  Arm("test.here:4");
  EXPECT_EXIT(Turns(), testing::ExitedWithCode(0), "turn 3\n$");
  Arm("test.her");
  EXPECT_EXIT(Turns(), testing::ExitedWithCode(0), "turn 3\n$");
}

TEST_F(FailpointTest, ANumberThatIsNoneIsRefused) {
  Arm("test.here:soon");
  EXPECT_EXIT(Turns(), testing::ExitedWithCode(2), "must be NAME or NAME:OCCURRENCE");
}

}  // namespace
}  // namespace dslide
