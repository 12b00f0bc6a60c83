#include "services/common/connection_rate.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace dslide {
namespace {

int Admitted(ConnectionRate& rate, absl::string_view address, int attempts, absl::Duration now) {
  int admitted = 0;
  for (int i = 0; i < attempts; ++i) admitted += rate.Admit(address, now) ? 1 : 0;
  return admitted;
}

TEST(ConnectionRateTest, AfterABurstThereAreSoManyASecond) {
  ConnectionRate rate(3);
  EXPECT_EQ(Admitted(rate, "a", 100, absl::Seconds(1000)), 3 * ConnectionRate::kBurstSeconds);
  EXPECT_EQ(Admitted(rate, "a", 100, absl::Seconds(1000.9)), 2);
  EXPECT_EQ(Admitted(rate, "a", 100, absl::Seconds(1002)), 4);
  // Nobody saves up more than a burst.
  EXPECT_EQ(Admitted(rate, "a", 100, absl::Seconds(5000)), 3 * ConnectionRate::kBurstSeconds);
}

TEST(ConnectionRateTest, OneAddressDoesNotTakeFromAnother) {
  ConnectionRate rate(1);
  Admitted(rate, "a", 100, absl::Seconds(5));
  EXPECT_FALSE(rate.Admit("a", absl::Seconds(5)));
  EXPECT_TRUE(rate.Admit("b", absl::Seconds(5)));
}

TEST(ConnectionRateTest, ZeroIsNoLimit) {
  ConnectionRate rate(0);
  EXPECT_EQ(Admitted(rate, "a", 1000, absl::ZeroDuration()), 1000);
}

TEST(ConnectionRateTest, ManyAddressesTakeBoundedMemory) {
  ConnectionRate rate(1);
  constexpr int kMany = 3 * static_cast<int>(ConnectionRate::kMaxAddresses);
  int admitted = 0;
  for (int i = 0; i < kMany; ++i) {
    admitted += rate.Admit(absl::StrCat("address ", i), absl::Seconds(1)) ? 1 : 0;
  }
  EXPECT_EQ(rate.addresses(), ConnectionRate::kMaxAddresses);
  // Those beyond share one bucket.
  EXPECT_EQ(admitted, ConnectionRate::kMaxAddresses + ConnectionRate::kBurstSeconds);
  // Who is remembered keeps its own, and full buckets make room.
  EXPECT_TRUE(rate.Admit("address 0", absl::Seconds(1)));
  EXPECT_TRUE(rate.Admit("newcomer", absl::Seconds(100)));
  EXPECT_EQ(rate.addresses(), 1u);
}

}  // namespace
}  // namespace dslide
