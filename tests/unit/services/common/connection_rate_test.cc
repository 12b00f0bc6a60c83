#include "services/common/connection_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/str_cat.h"

namespace dslide {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::SizeIs;

// The turns of those that were admitted, in seconds after `now`.
std::vector<double> Turns(ConnectionRate& rate, absl::string_view address, int attempts,
                          absl::Duration now) {
  std::vector<double> turns;
  for (int i = 0; i < attempts; ++i) {
    const auto turn = rate.Admit(address, now);
    if (turn.has_value()) turns.push_back(absl::ToDoubleSeconds(*turn - now));
  }
  return turns;
}

TEST(ConnectionRateTest, AfterABurstEachWaitsForItsTurn) {
  ConnectionRate rate(2);
  // Two seconds' worth: two at once, then one each half a second.
  EXPECT_THAT(Turns(rate, "a", 100, absl::Seconds(1000)),
              ElementsAre(0, 0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4));
  // A turn for each that has passed.
  EXPECT_THAT(Turns(rate, "a", 100, absl::Seconds(1000.9)), ElementsAre(DoubleNear(3.6, 1e-6)));
  EXPECT_THAT(Turns(rate, "a", 100, absl::Seconds(1002.1)), SizeIs(3));
  // Nobody saves up more than a burst.
  EXPECT_THAT(Turns(rate, "a", 3, absl::Seconds(5000)), ElementsAre(0, 0, 0.5));
}

TEST(ConnectionRateTest, OneAddressDoesNotTakeFromAnother) {
  ConnectionRate rate(1);
  Turns(rate, "a", 100, absl::Seconds(5));
  EXPECT_EQ(rate.Admit("a", absl::Seconds(5)), std::nullopt);
  EXPECT_EQ(rate.Admit("b", absl::Seconds(5)), absl::Seconds(5));
}

TEST(ConnectionRateTest, ZeroIsNoLimit) {
  ConnectionRate rate(0);
  EXPECT_EQ(Turns(rate, "a", 1000, absl::ZeroDuration()), std::vector<double>(1000, 0.0));
}

TEST(ConnectionRateTest, ManyAddressesTakeBoundedMemory) {
  ConnectionRate rate(1);
  constexpr int kMany = 3 * static_cast<int>(ConnectionRate::kMaxAddresses);
  int admitted = 0;
  for (int i = 0; i < kMany; ++i) {
    if (rate.Admit(absl::StrCat("address ", i), absl::Seconds(1)).has_value()) ++admitted;
  }
  EXPECT_EQ(rate.addresses(), ConnectionRate::kMaxAddresses);
  // Those beyond share one bucket.
  EXPECT_EQ(admitted, ConnectionRate::kMaxAddresses + 1 + ConnectionRate::kWaitSeconds);
  // Who is remembered keeps its own, and full buckets make room.
  EXPECT_EQ(rate.Admit("address 0", absl::Seconds(1)), absl::Seconds(2));
  EXPECT_EQ(rate.Admit("newcomer", absl::Seconds(100)), absl::Seconds(100));
  EXPECT_EQ(rate.addresses(), 1u);
}

}  // namespace
}  // namespace dslide
