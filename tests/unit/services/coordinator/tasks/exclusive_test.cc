#include "services/coordinator/tasks/exclusive.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

namespace dslide::coordinator {
namespace {

using Number = Exclusive<int>;

TEST(ExclusiveTest, GivesWhatIsFree) {
  Number number(std::make_unique<int>(7));
  {
    const std::optional<Number::Turn> turn = number.TryAcquire();
    ASSERT_TRUE(turn.has_value());
    EXPECT_EQ(*turn->operator->(), 7);
    EXPECT_TRUE(number.taken());
    EXPECT_FALSE(number.TryAcquire().has_value());
  }
  EXPECT_FALSE(number.taken());
  EXPECT_TRUE(number.Acquire(WorkProgress()).ok());
}

TEST(ExclusiveTest, MovesATurnAndEndsItOnce) {
  Number number(std::make_unique<int>(7));
  std::optional<Number::Turn> second;
  {
    Number::Turn first = number.Acquire();
    second = std::move(first);
  }
  EXPECT_TRUE(number.taken());
  second.reset();
  EXPECT_FALSE(number.taken());
}

TEST(ExclusiveTest, WaitsUntilTheWorkIsToEnd) {
  Number number(std::make_unique<int>(7));
  WorkProgress progress;
  const Number::Turn held = number.Acquire();
  std::thread waits([&] { EXPECT_TRUE(absl::IsCancelled(number.Acquire(progress).status())); });
  progress.Cancel(absl::CancelledError("enough"));
  waits.join();
}

TEST(ExclusiveTest, WaitsUntilItIsFree) {
  Number number(std::make_unique<int>(7));
  const WorkProgress progress;
  std::optional<Number::Turn> held = number.TryAcquire();
  std::thread waits([&] { EXPECT_TRUE(number.Acquire(progress).ok()); });
  std::thread waits_longer([&] { number.Acquire(); });
  held.reset();
  waits.join();
  waits_longer.join();
}

}  // namespace
}  // namespace dslide::coordinator
