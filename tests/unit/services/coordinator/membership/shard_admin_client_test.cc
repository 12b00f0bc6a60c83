#include "services/coordinator/membership/shard_admin_client.h"

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/client_interceptor.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "core/base/reason.h"
#include "core/protocol/reason_words.h"
#include "dslide/v1/shard.grpc.pb.h"

namespace dslide::coordinator {
namespace {

constexpr char kAddress[] = "shard";

// Holds every call back at its very begin, where cancelling does not end it, until it is let go.
class HeldCalls final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  struct State {
    absl::Notification begun;
    absl::Notification let_go;
  };
  explicit HeldCalls(State* state) : state_(state) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo* /*call*/) override {
    state_->begun.Notify();
    state_->let_go.WaitForNotification();
    return nullptr;  // no interceptor
  }

 private:
  State* const state_;
};

class ShardAdminClientTest : public ::testing::Test {
 protected:
  ShardAdminClientTest() {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    admin_ = MakeShardAdminClient(
        [this](const std::string&) -> absl::StatusOr<std::shared_ptr<grpc::Channel>> {
          std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> held;
          held.push_back(std::make_unique<HeldCalls>(&calls_));
          return server_->experimental().InProcessChannelWithInterceptors({}, std::move(held));
        });
  }

  absl::Status Drop() { return admin_->DropModel(kAddress, "m", absl::Minutes(1)); }

  v1::ShardService::Service service_;
  std::unique_ptr<grpc::Server> server_;
  HeldCalls::State calls_;
  std::unique_ptr<ShardAdmin> admin_;
};

TEST_F(ShardAdminClientTest, AStopReturnsWhenNoCallRuns) {
  absl::Status dropped;
  std::thread caller([&] { dropped = Drop(); });
  calls_.begun.WaitForNotification();
  absl::Notification stopped;
  std::thread stop([&] {
    admin_->Stop();
    server_->Shutdown();
    stopped.Notify();
  });
  EXPECT_FALSE(stopped.WaitForNotificationWithTimeout(absl::Milliseconds(100)));
  calls_.let_go.Notify();
  caller.join();
  stop.join();
  EXPECT_EQ(ReasonOf(dropped), reason::kShuttingDown) << dropped;
  EXPECT_EQ(ReasonOf(Drop()), reason::kShuttingDown) << "a call after the stop";
}

}  // namespace
}  // namespace dslide::coordinator
