#include "services/common/admin_address.h"

#include <gtest/gtest.h>

namespace dslide {
namespace {

TEST(AdminAddressTest, IsWhatPeersCanReach) {
  EXPECT_EQ(AdminAddressForOthers("10.0.0.7:7011", "10.0.0.7:7010"), "10.0.0.7:7011");
  EXPECT_EQ(AdminAddressForOthers("127.0.0.1:7011", "127.0.0.1:7010"), "127.0.0.1:7011");
  EXPECT_EQ(AdminAddressForOthers("127.0.0.1:7011", "unix:/run/shard"), "127.0.0.1:7011");
}

TEST(AdminAddressTest, APageOnEveryInterfaceHasTheHostOfTheServer) {
  EXPECT_EQ(AdminAddressForOthers("0.0.0.0:7011", "10.0.0.7:7010"), "10.0.0.7:7011");
  EXPECT_EQ(AdminAddressForOthers(":7011", "10.0.0.7:7010"), "10.0.0.7:7011");
  EXPECT_EQ(AdminAddressForOthers("[::]:7011", "[fd00::7]:7010"), "[fd00::7]:7011");
}

TEST(AdminAddressTest, IsEmptyWhereNobodyElseCanReachThePage) {
  EXPECT_EQ(AdminAddressForOthers("", "10.0.0.7:7010"), "");
  EXPECT_EQ(AdminAddressForOthers("127.0.0.1:7011", "10.0.0.7:7010"), "");
  EXPECT_EQ(AdminAddressForOthers("0.0.0.0:7011", "unix:/run/shard"), "");
  EXPECT_EQ(AdminAddressForOthers("0.0.0.0:7011", "0.0.0.0:7010"), "");
}

}  // namespace
}  // namespace dslide
