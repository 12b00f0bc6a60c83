#include "services/common/status_mapping.h"

#include <gtest/gtest.h>

#include "core/base/reason.h"
#include "core/base/retry_after.h"

namespace dslide {
namespace {

TEST(StatusMappingTest, EveryCodeComesBack) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status sent(static_cast<absl::StatusCode>(code), code == 0 ? "" : "text");
    const grpc::Status wire = ToGrpcStatus(sent);
    EXPECT_EQ(static_cast<int>(wire.error_code()), code);
    EXPECT_EQ(FromGrpcStatus(wire), sent);
  }
}

TEST(StatusMappingTest, ReasonAndPauseTravelInTheDetails) {
  const absl::Status sent =
      OverloadStatus("QUEUE_FULL", "64 steps are waiting", absl::Milliseconds(30));
  const grpc::Status wire = ToGrpcStatus(sent);
  EXPECT_FALSE(wire.error_details().empty());
  const absl::Status received = FromGrpcStatus(wire);
  EXPECT_EQ(ReasonOf(received), "QUEUE_FULL");
  EXPECT_EQ(RetryAfterMs(received), 30);
  EXPECT_EQ(received.message(), "64 steps are waiting");
}

TEST(StatusMappingTest, TheMessageNamesTheRequest) {
  const absl::Status sent =
      OverloadStatus("QUEUE_FULL", "64 steps are waiting", absl::Milliseconds(30));
  const absl::Status received = FromGrpcStatus(ToGrpcStatus(sent, "4f1c"));
  EXPECT_EQ(received.message(), "64 steps are waiting (request 4f1c)");
  EXPECT_EQ(ReasonOf(received), "QUEUE_FULL");
  EXPECT_EQ(RetryAfterMs(received), 30);
}

TEST(StatusMappingTest, MessagesAreCutAndMadeValid) {
  const grpc::Status wire =
      ToGrpcStatus(absl::InternalError(std::string(5000, 'x') + std::string("\xff")));
  EXPECT_LE(wire.error_message().size(), 1024u);
}

}  // namespace
}  // namespace dslide
