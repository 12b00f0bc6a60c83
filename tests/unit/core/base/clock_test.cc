#include "core/base/clock.h"

#include "gtest/gtest.h"

namespace dslide {
namespace {

TEST(SteadyClockTest, NeverGoesBack) {
  absl::Duration last = SteadyClock().Now();
  for (int i = 0; i < 1000; ++i) {
    const absl::Duration now = SteadyClock().Now();
    ASSERT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace dslide
