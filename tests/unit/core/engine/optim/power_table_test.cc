#include "core/engine/optim/power_table.h"

#include <cfloat>
#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace dslide {
namespace {

TEST(PowerTableTest, AgreesWithPow) {
  for (const double base : {0.0, 0.5, 0.9, 0.99, 0.999, 0.9999999, 1.0}) {
    const PowerTable table(base);
    for (int64_t n = 0; n < 5000; ++n) {
      const double expected = std::pow(base, static_cast<double>(n));
      const double bound = expected < DBL_MIN ? DBL_MIN : expected * 0x1.0p-42;
      ASSERT_NEAR(table.Power(n), expected, bound) << base << "^" << n;
    }
  }
}

TEST(PowerTableTest, LargeExponentsAreInRange) {
  const PowerTable table(0.9999999);
  EXPECT_NEAR(table.Power(10'000'000), std::exp(-1.00000005), 1e-8);
  EXPECT_EQ(table.Power(std::numeric_limits<int64_t>::max()), 0.0);
  EXPECT_EQ(PowerTable(1.0).Power(std::numeric_limits<int64_t>::max()), 1.0);
}

}  // namespace
}  // namespace dslide
