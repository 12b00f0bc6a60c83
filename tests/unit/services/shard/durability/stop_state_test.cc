#include "services/shard/durability/stop_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "services/shard/state/shard_core.h"
#include "tests/unit/services/shard/state/shard_samples.h"

namespace dslide::shard {
namespace {

using ::testing::HasSubstr;

absl::Status Decode(const std::string& bytes, ShardCore& core) {
  return DecodeStopState("STOPPED", bytes, core);
}

// Without rows any two cores are alike.
TEST(StopStateTest, BringsBackClientsWithTheirAnswers) {
  ShardCore stopped({});
  const ClientId ann = {1};
  const ClientId bob = {2};
  stopped.Apply(HelloCommand{.job = "job", .client = ann, .acknowledged_sequence = 0});
  stopped.Apply(HelloCommand{.job = "job", .client = bob, .acknowledged_sequence = 3});
  stopped.Apply(CloseClientCommand{.job = "job", .client = ClientId{9}});
  ShardCore started({});
  ASSERT_TRUE(Decode(EncodeStopState(stopped), started).ok());
  EXPECT_EQ(started.clients().open_clients(), 2);
  EXPECT_FALSE(started.clients().clients().at(ann).lost);
  EXPECT_TRUE(started.clients().clients().at(bob).lost);
  EXPECT_EQ(started.clients().closed().size(), 1u);
  EXPECT_EQ(EncodeStopState(started), EncodeStopState(stopped));
}

TEST(StopStateTest, NoticesEveryFlippedByteAndEveryLength) {
  ShardCore stopped({});
  stopped.Apply(HelloCommand{.job = "job", .client = ClientId{1}, .acknowledged_sequence = 0});
  const std::string good = EncodeStopState(stopped);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 0x20;
    ShardCore core({});
    EXPECT_TRUE(absl::IsDataLoss(Decode(bad, core))) << i;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    ShardCore core({});
    EXPECT_TRUE(absl::IsDataLoss(Decode(good.substr(0, size), core))) << size;
  }
}

TEST(StopStateTest, BelongsToItsRows) {
  ShardCore with_rows(SampleOptions());
  ASSERT_TRUE(with_rows.Apply(SampleCreate()).reply->status.ok());
  ShardCore without({});
  const absl::Status decoded = Decode(EncodeStopState(with_rows), without);
  EXPECT_TRUE(absl::IsDataLoss(decoded));
  EXPECT_THAT(std::string(decoded.message()), HasSubstr("is of other rows"));
}

}  // namespace
}  // namespace dslide::shard
