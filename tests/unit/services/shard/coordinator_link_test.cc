#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "core/protocol/reason_words.h"
#include "dslide/v1/coordinator.grpc.pb.h"
#include "tests/unit/patience.h"
#include "tests/unit/services/shard/shard_server_fixture.h"

namespace dslide::shard {
namespace {

using ::testing::HasSubstr;

// A coordinator that does as the test says.
class FakeCoordinator final : public v1::CoordinatorService::Service {
 public:
  grpc::Status RegisterShard(grpc::ServerContext*, const v1::RegisterShardRequest* request,
                             v1::RegisterShardResponse* response) override {
    const absl::MutexLock lock(&mu_);
    last_ = *request;
    if (!register_error_.ok()) return ToGrpcStatus(register_error_);
    ++registrations_;
    known_ = true;
    left_ = false;
    response->set_shard_id(std::max(0, request->shard_id()));
    response->set_generation(10 + registrations_);
    response->mutable_heartbeat_interval()->set_nanos(10'000'000);
    response->set_rollback_pending(rollback_pending_);
    return grpc::Status::OK;
  }
  grpc::Status Heartbeat(grpc::ServerContext*, const v1::HeartbeatRequest* request,
                         v1::HeartbeatResponse* response) override {
    const absl::MutexLock lock(&mu_);
    response->set_rollback_pending(rollback_pending_);
    EXPECT_EQ(request->generation(), 10u + registrations_);
    ++heartbeats_;
    memory_ = request->memory_bytes();
    if (!known_) return {grpc::StatusCode::NOT_FOUND, "who are you"};
    return ToGrpcStatus(heartbeat_error_);
  }
  grpc::Status DeregisterShard(grpc::ServerContext*, const v1::DeregisterShardRequest*,
                               v1::DeregisterShardResponse*) override {
    const absl::MutexLock lock(&mu_);
    left_ = true;
    return grpc::Status::OK;
  }

  void Forget() {
    const absl::MutexLock lock(&mu_);
    known_ = false;
  }
  void SetRollbackPending(bool rollback_pending) {
    const absl::MutexLock lock(&mu_);
    rollback_pending_ = rollback_pending;
  }
  void FailHeartbeats(absl::Status status) {
    const absl::MutexLock lock(&mu_);
    heartbeat_error_ = std::move(status);
  }
  void RefuseRegistrations(absl::Status status) {
    const absl::MutexLock lock(&mu_);
    register_error_ = std::move(status);
  }
  void AwaitHeartbeats(int more) {
    const absl::MutexLock lock(&mu_);
    const int wanted = heartbeats_ + more;
    const auto reached = [&] { return heartbeats_ >= wanted; };
    EXPECT_TRUE(mu_.AwaitWithTimeout(absl::Condition(&reached), kPatience));
  }
  void AwaitRegistrations(int wanted) {
    const absl::MutexLock lock(&mu_);
    const auto reached = [&] { return registrations_ >= wanted; };
    EXPECT_TRUE(mu_.AwaitWithTimeout(absl::Condition(&reached), kPatience));
  }
  v1::RegisterShardRequest last() {
    const absl::MutexLock lock(&mu_);
    return last_;
  }
  bool left() {
    const absl::MutexLock lock(&mu_);
    return left_;
  }
  int64_t memory() {
    const absl::MutexLock lock(&mu_);
    return memory_;
  }

 private:
  absl::Mutex mu_;
  bool known_ = false;
  bool left_ = false;
  bool rollback_pending_ = false;
  int registrations_ = 0;
  int heartbeats_ = 0;
  int64_t memory_ = -1;
  absl::Status heartbeat_error_;
  absl::Status register_error_;
  v1::RegisterShardRequest last_;
};

class CoordinatorLinkTest : public ShardServerTest {
 protected:
  void SetUp() override {
    grpc::ServerBuilder builder;
    builder.RegisterService(&coordinator_);
    coordinator_server_ = builder.BuildAndStart();
  }
  void TearDown() override {
    ShardServerTest::TearDown();
    coordinator_server_->Shutdown();
  }

  // A shard that is not waited for.
  absl::StatusOr<std::unique_ptr<ShardServer>> StartShard() {
    ShardServerOptions options;
    options.coordinator = "inproc:coordinator";
    options.advertise = "inproc:shard";
    options.shard_id = 1;
    options.capacity_weight = 2.5;
    options.core.parallelism.threads = 1;
    options.channels =
        [this](const std::string& address) -> absl::StatusOr<std::shared_ptr<grpc::Channel>> {
      EXPECT_EQ(address, "inproc:coordinator");
      if (!coordinator_reachable_) return absl::UnavailableError("not there yet");
      return coordinator_server_->InProcessChannel({});
    };
    options.on_fenced = [this] { fenced_.Notify(); };
    return ShardServer::Start(std::move(options));
  }
  void StartReady() {
    auto server = StartShard();
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    ASSERT_TRUE(server_->WaitUntilReady(kPatience).ok());
    stub_ = v1::ShardService::NewStub(server_->runtime().InProcessChannel().value());
  }
  uint64_t Generation() {
    v1::GetServerInfoResponse info;
    EXPECT_TRUE(stub_->GetServerInfo(Context().get(), {}, &info).ok());
    return info.generation();
  }

  FakeCoordinator coordinator_;
  std::unique_ptr<grpc::Server> coordinator_server_;
  std::atomic<bool> coordinator_reachable_ = true;
  absl::Notification fenced_;
};

TEST_F(CoordinatorLinkTest, RegistersBeatsAndSaysGoodBye) {
  StartReady();
  EXPECT_EQ(server_->shard(), ShardId(1));
  EXPECT_EQ(Generation(), 11u);
  const v1::RegisterShardRequest request = coordinator_.last();
  EXPECT_EQ(request.shard_id(), 1);
  EXPECT_EQ(request.address(), "inproc:shard");
  EXPECT_EQ(request.capacity_weight(), 2.5);
  EXPECT_EQ(request.instance_id().size(), 16u);
  coordinator_.AwaitHeartbeats(2);
  EXPECT_EQ(coordinator_.memory(), 0);
  EXPECT_TRUE(server_->runtime().Drain().ok());
  EXPECT_TRUE(coordinator_.left());
}

TEST_F(CoordinatorLinkTest, WaitsForACoordinatorThatIsNotThereYet) {
  coordinator_reachable_ = false;
  auto server = StartShard();
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  EXPECT_TRUE(absl::IsDeadlineExceeded(server_->WaitUntilReady(absl::Milliseconds(50))));
  coordinator_reachable_ = true;
  EXPECT_TRUE(server_->WaitUntilReady(kPatience).ok());
}

TEST_F(CoordinatorLinkTest, ARefusedRegistrationIsTriedAgainAndSaysWhy) {
  coordinator_.RefuseRegistrations(absl::FailedPreconditionError("all places are taken"));
  auto server = StartShard();
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  absl::Status waiting;
  EXPECT_TRUE(Eventually([&] {
    waiting = server_->WaitUntilReady(absl::Milliseconds(10));
    return absl::StrContains(waiting.message(), "all places are taken");
  })) << waiting;
  coordinator_.RefuseRegistrations(absl::OkStatus());
  EXPECT_TRUE(server_->WaitUntilReady(kPatience).ok());
}

TEST_F(CoordinatorLinkTest, RegistersAgainWithACoordinatorThatForgot) {
  StartReady();
  const std::string instance = coordinator_.last().instance_id();
  coordinator_.Forget();
  coordinator_.AwaitRegistrations(2);
  coordinator_.AwaitHeartbeats(2);
  EXPECT_EQ(coordinator_.last().instance_id(), instance) << "it is the same process";
  EXPECT_EQ(coordinator_.last().shard_id(), 1);
  EXPECT_EQ(Generation(), 12u);
}

TEST_F(CoordinatorLinkTest, WithoutItsRowsItGreetsNobodyWhileTheClusterRollbackPending) {
  coordinator_.SetRollbackPending(true);
  StartReady();
  coordinator_.AwaitHeartbeats(2);
  const absl::Status refused = Hello(trainer_.Hello()).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_EQ(ReasonOf(refused), reason::kAwaitingRestore);
  coordinator_.SetRollbackPending(false);
  coordinator_.AwaitHeartbeats(2);
  EXPECT_TRUE(Hello(trainer_.Hello()).ok());
  // From then on it has rows that count, whatever others have lost.
  coordinator_.SetRollbackPending(true);
  coordinator_.AwaitHeartbeats(2);
  EXPECT_TRUE(Hello(trainer_.Hello()).ok());
}

TEST_F(CoordinatorLinkTest, KeepsServingWhileTheCoordinatorIsAway) {
  StartReady();
  coordinator_.FailHeartbeats(absl::UnavailableError("away"));
  coordinator_.AwaitHeartbeats(3);
  EXPECT_TRUE(Hello(trainer_.Hello()).ok());
  EXPECT_EQ(ReasonOf(Create()), reason::kWrongShard) << "it is number 1, and answers";
}

TEST_F(CoordinatorLinkTest, AReplacedShardRefusesEverything) {
  StartReady();
  coordinator_.FailHeartbeats(StatusWithReason(absl::StatusCode::kFailedPrecondition,
                                               reason::kFenced, "generation 99 owns it"));
  ASSERT_TRUE(fenced_.WaitForNotificationWithTimeout(kPatience));
  const absl::Status refused = Create();
  EXPECT_EQ(ReasonOf(refused), reason::kFenced);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
}

}  // namespace
}  // namespace dslide::shard
