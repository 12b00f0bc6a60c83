#include "client/cpp/unary_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "dslide/v1/coordinator.pb.h"
#include "tests/unit/patience.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;

// Calls answered with the given statuses, one after the other.
class UnaryCallTest : public ::testing::Test {
 protected:
  absl::StatusOr<v1::GetClusterMapResponse> Run(bool repeat,
                                                const std::vector<grpc::Status>& answers) {
    const UnaryCall call{.peer = "shard 3",
                         .remedy = "start it",
                         .name = "Look",
                         .method = WireMethod::kCoordinator,
                         .counters = nullptr,
                         .timeout = kPatience,
                         .retry = {},
                         .repeat = repeat};
    const v1::GetClusterMapRequest request;
    return RunUnaryCall<v1::GetClusterMapRequest, v1::GetClusterMapResponse>(
        call, request,
        [&](grpc::ClientContext*, v1::GetClusterMapResponse*) { return answers.at(attempts_++); });
  }

  size_t attempts_ = 0;
};

TEST_F(UnaryCallTest, WhatTheServerCancelledIsAskedAgain) {
  const auto answer =
      Run(true, {grpc::Status(grpc::StatusCode::CANCELLED, "CANCELLED"),
                 grpc::Status(grpc::StatusCode::UNAVAILABLE, "stopping"), grpc::Status::OK});
  EXPECT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(attempts_, 3u);
}

TEST_F(UnaryCallTest, WhatMayNotBeRepeatedIsUnavailable) {
  const auto answer = Run(false, {grpc::Status(grpc::StatusCode::CANCELLED, "CANCELLED")});
  EXPECT_TRUE(absl::IsUnavailable(answer.status())) << answer.status();
  EXPECT_THAT(answer.status().message(), HasSubstr("shard 3, Look"));
}

TEST_F(UnaryCallTest, OtherErrorsAreAnswers) {
  const auto answer = Run(true, {grpc::Status(grpc::StatusCode::NOT_FOUND, "no such model")});
  EXPECT_TRUE(absl::IsNotFound(answer.status())) << answer.status();
  EXPECT_EQ(attempts_, 1u);
}

}  // namespace
}  // namespace dslide
