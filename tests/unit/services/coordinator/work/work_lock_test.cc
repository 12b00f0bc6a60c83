#include "services/coordinator/work/work_lock.h"

#include <gtest/gtest.h>

#include <thread>

namespace dslide::coordinator {
namespace {

TEST(WorkLockTest, HoldsWhatIsFree) {
  absl::Mutex mu;
  const WorkProgress progress;
  {
    const WorkLock lock(&mu);
    EXPECT_TRUE(lock.held());
    std::thread([&] { EXPECT_FALSE(WorkLock(&mu).held()); }).join();
  }
  const WorkLock again(&mu, progress);
  EXPECT_TRUE(again.held());
}

TEST(WorkLockTest, WaitsUntilTheWorkIsToEnd) {
  absl::Mutex mu;
  WorkProgress progress;
  std::thread waits;
  {
    const WorkLock held(&mu);
    waits = std::thread([&] { EXPECT_FALSE(WorkLock(&mu, progress).held()); });
    progress.Cancel(absl::CancelledError("enough"));
    waits.join();
  }
  EXPECT_TRUE(WorkLock(&mu).held());
}

TEST(WorkLockTest, WaitsUntilItIsFree) {
  absl::Mutex mu;
  const WorkProgress progress;
  std::thread waits;
  {
    const WorkLock held(&mu);
    waits = std::thread([&] { EXPECT_TRUE(WorkLock(&mu, progress).held()); });
  }
  waits.join();
}

}  // namespace
}  // namespace dslide::coordinator
