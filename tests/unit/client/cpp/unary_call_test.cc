#include "client/cpp/unary_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "core/wire/status_details.h"
#include "dslide/v1/coordinator.pb.h"
#include "tests/unit/patience.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

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
                         .repeat = repeat,
                         .request_id = request_id_,
                         .handshake_patience = handshake_patience_};
    const v1::GetClusterMapRequest request;
    return RunUnaryCall<v1::GetClusterMapRequest, v1::GetClusterMapResponse>(
        call, request,
        [&](grpc::ClientContext*, v1::GetClusterMapResponse*) { return answers.at(attempts_++); });
  }

  size_t attempts_ = 0;
  std::string request_id_ = "mine";
  absl::Duration handshake_patience_ = absl::InfiniteDuration();
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

TEST_F(UnaryCallTest, AConnectionThatTakesLongIsNoStranger) {
  handshake_patience_ = absl::ZeroDuration();
  const auto unreached = [](absl::string_view why) {
    return grpc::Status(
        grpc::StatusCode::UNAVAILABLE,
        absl::StrCat("failed to connect to all addresses; last error: UNKNOWN: ", why));
  };
  const auto slow =
      Run(true, {unreached("ipv4:10.0.0.1:7000: tcp handshaker shutdown"), grpc::Status::OK});
  EXPECT_TRUE(slow.ok()) << slow.status();
  attempts_ = 0;
  const auto stranger = Run(true, {unreached("Ssl handshake failed: SSL_ERROR_SSL")});
  EXPECT_TRUE(absl::IsPermissionDenied(stranger.status())) << stranger.status();
  EXPECT_THAT(stranger.status().message(), HasSubstr("check --tls-ca"));
}

TEST_F(UnaryCallTest, AnErrorNamesTheRequest) {
  const grpc::Status refusal(grpc::StatusCode::NOT_FOUND, "no such model");
  EXPECT_EQ(Run(true, {refusal}).status().message(), "shard 3, Look: no such model (request mine)");
  request_id_ = "";
  EXPECT_THAT(std::string(Run(true, {refusal, refusal}).status().message()),
              MatchesRegex(".* \\(request [0-9a-f]{16}\\)"));
}

TEST_F(UnaryCallTest, TheIdThatTheServerLoggedWins) {
  const absl::Status refusal = absl::NotFoundError("no such model");
  const auto answer = Run(true, {grpc::Status(grpc::StatusCode::NOT_FOUND, "no such model",
                                              wire::EncodeStatusDetails(refusal, "theirs"))});
  EXPECT_THAT(answer.status().message(), HasSubstr("(request theirs)"));
}

}  // namespace
}  // namespace dslide
