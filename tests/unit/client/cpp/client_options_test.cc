#include "client/cpp/client_options.h"

#include <gtest/gtest.h>

#include "client/cpp/channel_factory.h"
#include "client/cpp/wire_counters.h"
#include "core/base/reason.h"

namespace dslide {
namespace {

TEST(RetryOptionsTest, DelaysGrowWithinTheirBounds) {
  RetryOptions retry;
  for (uint64_t salt = 0; salt < 20; ++salt) {
    for (int attempt = 1; attempt < 40; ++attempt) {
      const absl::Duration delay = retry.Delay(attempt, salt);
      EXPECT_GE(delay, retry.first_delay / 2);
      EXPECT_LE(delay, retry.max_delay);
    }
    EXPECT_GE(retry.Delay(20, salt), retry.max_delay / 2);
  }
  EXPECT_NE(retry.Delay(3, 1), retry.Delay(3, 2));
}

TEST(OutcomeTest, ARefusalProvesThatNothingChanged) {
  EXPECT_EQ(OutcomeOf(absl::OkStatus()), Outcome::kApplied);
  EXPECT_EQ(OutcomeOf(absl::InvalidArgumentError("x")), Outcome::kNotApplied);
  EXPECT_EQ(OutcomeOf(absl::FailedPreconditionError("x")), Outcome::kNotApplied);
  EXPECT_EQ(OutcomeOf(StatusWithReason(absl::StatusCode::kResourceExhausted, "QUEUE_FULL", "x")),
            Outcome::kNotApplied);
}

TEST(OutcomeTest, ALostConnectionProvesNothing) {
  EXPECT_EQ(OutcomeOf(absl::UnavailableError("x")), Outcome::kUnknown);
  EXPECT_EQ(OutcomeOf(absl::DeadlineExceededError("x")), Outcome::kUnknown);
  EXPECT_EQ(OutcomeOf(absl::CancelledError("x")), Outcome::kUnknown);
  EXPECT_EQ(OutcomeOf(absl::InternalError("x")), Outcome::kUnknown);
  EXPECT_EQ(OutcomeOf(absl::ResourceExhaustedError("from the transport")), Outcome::kUnknown);
}

TEST(ClientIdTest, DiffersFromProcessToProcess) { EXPECT_NE(NewClientId(), NewClientId()); }

TEST(NetworkChannelsTest, RefusesWhatIsNoAddress) {
  const ChannelFactory channels = NetworkChannels({});
  for (const char* bad : {"", "host", "host:", "host:0", "host:70000", ":7000"}) {
    EXPECT_EQ(channels(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(NetworkChannelsTest, PlaintextLeavesTheMachineOnlyWhenAsked) {
  EXPECT_EQ(NetworkChannels({})("192.0.2.1:7000").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(NetworkChannels({.insecure = true})("192.0.2.1:7000").ok());
  EXPECT_TRUE(NetworkChannels({})("127.0.0.1:7000").ok());
  EXPECT_TRUE(NetworkChannels({})("[::1]:7000").ok());
  EXPECT_TRUE(NetworkChannels({})("unix:/run/dslide.sock").ok());
}

TEST(WireCountersTest, CountsMessagesWithTheirPrefix) {
  WireCounters counters;
  counters.AddSent(WireMethod::kStep, 100);
  counters.AddSent(WireMethod::kGather, 10);
  counters.AddReceived(WireMethod::kStep, 7);
  EXPECT_EQ(counters.Of(WireMethod::kStep).bytes_sent, 105);
  EXPECT_EQ(counters.Total().bytes_sent, 120);
  EXPECT_EQ(counters.Total().bytes_received, 12);
  EXPECT_EQ(counters.Total().messages_sent, 2);
}

}  // namespace
}  // namespace dslide
