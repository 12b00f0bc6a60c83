#include "services/coordinator/tasks/background_loop.h"

#include <gtest/gtest.h>

#include <atomic>

#include "absl/synchronization/notification.h"

namespace dslide::coordinator {
namespace {

TEST(BackgroundLoopTest, RunsAgainAfterThePauseAndNotAfterStop) {
  std::atomic<int> runs = 0;
  absl::Notification third;
  BackgroundLoop loop([&] {
    if (++runs == 3) third.Notify();
    return runs < 3 ? absl::Milliseconds(1) : absl::InfiniteDuration();
  });
  third.WaitForNotification();
  loop.Stop();
  loop.Stop();
  EXPECT_EQ(runs, 3);
}

TEST(BackgroundLoopTest, EndsTheLongestPause) {
  absl::Notification run;
  BackgroundLoop loop([&] {
    run.Notify();
    return absl::InfiniteDuration();
  });
  run.WaitForNotification();
}

}  // namespace
}  // namespace dslide::coordinator
