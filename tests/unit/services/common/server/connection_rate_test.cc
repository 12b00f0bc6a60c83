#include "services/common/server/connection_rate.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace dslide {
namespace {

constexpr absl::Duration kStart = absl::Seconds(1000);

// How many of `attempts` get a turn at once.
int Taken(ConnectionRate& rate, absl::string_view address, int attempts, absl::Duration now) {
  int taken = 0;
  for (int i = 0; i < attempts; ++i) taken += rate.Take(address, now) ? 1 : 0;
  return taken;
}

double SecondsToTurn(ConnectionRate& rate, absl::string_view address, absl::Duration now) {
  return absl::ToDoubleSeconds(rate.NextTurn(address, now) - now);
}

TEST(ConnectionRateTest, AfterABurstThereIsATurnNowAndThen) {
  ConnectionRate rate(2);
  EXPECT_EQ(SecondsToTurn(rate, "a", kStart), 0);
  EXPECT_EQ(Taken(rate, "a", 100, kStart), 2);
  EXPECT_DOUBLE_EQ(SecondsToTurn(rate, "a", kStart), 0.5);
  EXPECT_EQ(Taken(rate, "a", 100, kStart + absl::Seconds(0.75)), 1);
  EXPECT_DOUBLE_EQ(SecondsToTurn(rate, "a", kStart + absl::Seconds(0.75)), 0.25);
  // Nobody saves up more than a second's worth.
  EXPECT_EQ(Taken(rate, "a", 100, kStart + absl::Hours(1)), 2);
}

TEST(ConnectionRateTest, OneThatWasOfNoUseCostsASecondsWorth) {
  ConnectionRate rate(10);
  EXPECT_EQ(Taken(rate, "a", 1, kStart), 1);
  rate.Charge("a", kStart);
  EXPECT_DOUBLE_EQ(SecondsToTurn(rate, "a", kStart), 0.2);
  // Whoever only tries gets one a second, whatever else it has spoilt before.
  for (int i = 0; i < 1000; ++i) rate.Charge("a", kStart);
  EXPECT_DOUBLE_EQ(SecondsToTurn(rate, "a", kStart), ConnectionRate::kMostDebtSeconds + 0.1);
  absl::Duration now = kStart + absl::Seconds(ConnectionRate::kMostDebtSeconds + 0.1);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(Taken(rate, "a", 100, now), 1) << i;
    rate.Charge("a", now);
    EXPECT_NEAR(SecondsToTurn(rate, "a", now), 1.1, 1e-6);
    now += absl::Seconds(1.1);
  }
}

TEST(ConnectionRateTest, OneAddressDoesNotTakeFromAnother) {
  ConnectionRate rate(1);
  EXPECT_EQ(Taken(rate, "a", 100, kStart), 1);
  rate.Charge("a", kStart);
  EXPECT_EQ(SecondsToTurn(rate, "b", kStart), 0);
  EXPECT_EQ(Taken(rate, "b", 100, kStart), 1);
}

TEST(ConnectionRateTest, ZeroIsNoLimit) {
  ConnectionRate rate(0);
  rate.Charge("a", kStart);
  EXPECT_EQ(Taken(rate, "a", 1000, kStart), 1000);
  EXPECT_EQ(SecondsToTurn(rate, "a", kStart), 0);
}

TEST(ConnectionRateTest, ManyAddressesTakeBoundedMemory) {
  ConnectionRate rate(1);
  constexpr int kMany = 3 * static_cast<int>(ConnectionRate::kMaxAddresses);
  int taken = 0;
  for (int i = 0; i < kMany; ++i) taken += Taken(rate, absl::StrCat("address ", i), 1, kStart);
  EXPECT_EQ(rate.addresses(), ConnectionRate::kMaxAddresses);
  // Those beyond share one bucket.
  EXPECT_EQ(taken, ConnectionRate::kMaxAddresses + 1);
  // Who is remembered keeps its own, and full buckets make room.
  EXPECT_DOUBLE_EQ(SecondsToTurn(rate, "address 0", kStart), 1);
  EXPECT_EQ(Taken(rate, "newcomer", 5, kStart + absl::Seconds(100)), 1);
  EXPECT_EQ(rate.addresses(), 1u);
}

}  // namespace
}  // namespace dslide
