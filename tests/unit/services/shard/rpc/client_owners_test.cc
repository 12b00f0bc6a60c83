#include "services/shard/rpc/client_owners.h"

#include <gtest/gtest.h>

#include "core/base/reason.h"
#include "core/protocol/reason_words.h"

namespace dslide::shard {
namespace {

PeerIdentity Named(const std::string& name) { return std::make_shared<const std::string>(name); }

TEST(ClientOwnersTest, AClientBelongsToWhoUsedItFirst) {
  ClientOwners owners;
  const ClientId client = {1};
  EXPECT_TRUE(owners.Check(client, Named("ann")).ok());
  EXPECT_TRUE(owners.Check(client, Named("ann")).ok()) << "also on another connection";
  const absl::Status refused = owners.Check(client, Named("bob"));
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_EQ(ReasonOf(refused), reason::kForeignClient);
  EXPECT_TRUE(absl::IsPermissionDenied(owners.Check(client, nullptr)));
  EXPECT_TRUE(owners.Check({2}, Named("bob")).ok());
  EXPECT_TRUE(owners.Check(client, Named("ann")).ok());
}

TEST(ClientOwnersTest, PeersWithoutANameOwnNothing) {
  ClientOwners owners;
  EXPECT_TRUE(owners.Check({1}, nullptr).ok());
  EXPECT_EQ(owners.size(), 0u);
  EXPECT_TRUE(owners.Check({1}, Named("ann")).ok());
}

TEST(ClientOwnersTest, ManyIdsTakeNoMoreMemoryThanThereAreClients) {
  ClientOwners owners;
  ClientTable clients{ClientLimits()};
  const ClientId open = {7, 7};
  ASSERT_TRUE(clients.Open(open, "job", 0, 0).ok());
  ASSERT_TRUE(owners.Check(open, Named("ann")).ok());
  uint32_t drawn = 0;
  while (!owners.crowded()) {
    ClientId id = {9};
    for (size_t byte = 0; byte < 4; ++byte) id[1 + byte] = static_cast<uint8_t>(drawn >> 8 * byte);
    ASSERT_TRUE(owners.Check(id, Named("bob")).ok());
    ASSERT_LT(++drawn, 100'000u);
  }
  owners.KeepOpen(clients);
  EXPECT_EQ(owners.size(), 1u);
  EXPECT_FALSE(owners.crowded());
  EXPECT_TRUE(absl::IsPermissionDenied(owners.Check(open, Named("bob"))));
}

}  // namespace
}  // namespace dslide::shard
