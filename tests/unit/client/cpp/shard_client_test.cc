#include "client/cpp/shard_client.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "absl/synchronization/notification.h"
#include "client/cpp/wire_counters.h"
#include "dslide/v1/shard.grpc.pb.h"
#include "tests/unit/patience.h"

namespace dslide {
namespace {

// Cancels the first call, as a server does that stops; its successor has no model.
class StoppingShard final : public v1::ShardService::Service {
 public:
  StoppingShard() {
    grpc::ServerBuilder builder;
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~StoppingShard() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::shared_ptr<grpc::Channel> Channel() {
    return server_->InProcessChannel(grpc::ChannelArguments());
  }

  grpc::Status TopK(grpc::ServerContext*, const v1::TopKRequest*, v1::TopKResponse*) override {
    return Answer();
  }
  grpc::Status Gather(grpc::ServerContext*, const v1::GatherRequest*,
                      grpc::ServerWriter<v1::GatherResponse>*) override {
    return Answer();
  }

 private:
  grpc::Status Answer() {
    return stopped_.exchange(true) ? grpc::Status(grpc::StatusCode::NOT_FOUND, "no such model")
                                   : grpc::Status(grpc::StatusCode::CANCELLED, "CANCELLED");
  }

  std::atomic<bool> stopped_{false};
  std::unique_ptr<grpc::Server> server_;
};

class ShardClientTest : public ::testing::Test {
 protected:
  static ClientOptions Options() {
    ClientOptions options;
    options.timeout = kPatience;
    options.retry.first_delay = absl::Milliseconds(1);
    return options;
  }

  StoppingShard shard_;
  WireCounters counters_;
  ShardClient client_{shard_.Channel(), ShardId(3), "here:1", Options(), &counters_};
};

TEST_F(ShardClientTest, RowsThatAStoppingShardCancelledAreAskedForAgain) {
  GatherCommand command;
  command.model = "m";
  command.table = "t";
  command.rows = {RowId(1)};
  const absl::Status refusal = client_.Gather(command).status();
  EXPECT_TRUE(absl::IsNotFound(refusal)) << refusal;
}

TEST_F(ShardClientTest, WhoAsksForTheBestRowsCanTellThatTheShardStops) {
  absl::StatusOr<TopKReply> reply;
  absl::Notification answered;
  TopKCommand query;
  query.model = "m";
  client_.TopKAsync(query, ShardClient::Turn::kLast, [&](absl::StatusOr<TopKReply> result) {
    reply = std::move(result);
    answered.Notify();
  });
  answered.WaitForNotification();
  EXPECT_TRUE(absl::IsUnavailable(reply.status())) << reply.status();
}

}  // namespace
}  // namespace dslide
