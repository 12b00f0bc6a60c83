// A shard server with a data directory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "core/protocol/reason_words.h"
#include "tests/unit/services/shard/shard_server_fixture.h"

namespace dslide::shard {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ShardServerDiskTest : public ShardServerTest {
 protected:
  void SetUp() override {
    fs::remove_all(directory_);
    Restart();
  }
  void TearDown() override {
    ShardServerTest::TearDown();
    fs::remove_all(directory_);
  }
  void Restart() {
    ShardServerOptions options;
    options.data_dir = directory_.string();
    Start(std::move(options));
  }

  const fs::path directory_ =
      fs::path(::testing::TempDir()) /
      ("shard_server_test_" + std::to_string(getpid()) + "_" +
       std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
};

TEST_F(ShardServerDiskTest, ACleanStopKeepsRowsAndClients) {
  Prepare();
  ASSERT_TRUE(
      Scatter(wire::EncodeScatter(trainer_.Scatter(ScatterMode::kAssign), ActivationType::kF32))
          .ok());
  const uint64_t digest = HeadDigest();
  Restart();
  EXPECT_EQ(HeadDigest(), digest);
  HelloCommand hello = trainer_.Hello();
  hello.acknowledged_sequence = 1;
  EXPECT_EQ(Hello(hello)->next_sequence, 2u);
  EXPECT_THAT(server_->metrics().Expose(), HasSubstr("dslide_shard_acked_loss_total 0"));
}

TEST_F(ShardServerDiskTest, ClientsAreToldOfALossAsOftenAsTheyAsk) {
  Prepare();
  HelloCommand hello = trainer_.Hello();
  hello.client = ClientId{77};  // nobody that the shard knows
  hello.acknowledged_sequence = 1;
  EXPECT_EQ(Hello(hello)->next_sequence, 1u);
  EXPECT_EQ(Hello(hello)->next_sequence, 1u);
  EXPECT_THAT(server_->metrics().Expose(), HasSubstr("dslide_shard_acked_loss_total 2"));
}

TEST_F(ShardServerDiskTest, CheckpointsAreWrittenAndLoadedOnCommand) {
  Prepare();
  const uint64_t before = HeadDigest();
  v1::WriteCheckpointRequest write;
  write.set_model("m");
  write.set_checkpoint("one");
  v1::WriteCheckpointResponse written;
  ASSERT_TRUE(stub_->WriteCheckpoint(Context().get(), write, &written).ok());
  EXPECT_GT(written.rows(), 0);
  EXPECT_GT(written.bytes(), 0);
  ASSERT_TRUE(
      Scatter(wire::EncodeScatter(trainer_.Scatter(ScatterMode::kAdd), ActivationType::kF32)).ok());
  EXPECT_NE(HeadDigest(), before);
  v1::LoadCheckpointRequest load;
  load.set_model("m");
  load.set_checkpoint("one");
  v1::LoadCheckpointResponse loaded;
  ASSERT_TRUE(stub_->LoadCheckpoint(Context().get(), load, &loaded).ok());
  EXPECT_EQ(loaded.rows(), written.rows());
  EXPECT_EQ(HeadDigest(), before);
  load.set_checkpoint("two");
  EXPECT_EQ(stub_->LoadCheckpoint(Context().get(), load, &loaded).error_code(),
            grpc::StatusCode::NOT_FOUND);
  load.set_checkpoint("../one");
  EXPECT_EQ(stub_->LoadCheckpoint(Context().get(), load, &loaded).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  write.set_model("none");
  EXPECT_EQ(stub_->WriteCheckpoint(Context().get(), write, &written).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(ShardServerDiskTest, ADroppedModelDoesNotComeBack) {
  Prepare();
  Restart();
  ASSERT_TRUE(Describe().ok());
  v1::DropModelRequest drop;
  drop.set_model("m");
  v1::DropModelResponse dropped;
  ASSERT_TRUE(stub_->DropModel(Context().get(), drop, &dropped).ok());
  EXPECT_EQ(stub_->DropModel(Context().get(), drop, &dropped).error_code(),
            grpc::StatusCode::NOT_FOUND);
  Restart();
  EXPECT_TRUE(absl::IsNotFound(Describe().status()));
}

TEST_F(ShardServerDiskTest, ADamagedCheckpointStopsTheStart) {
  Prepare();
  stub_ = nullptr;
  server_ = nullptr;
  for (const auto& entry : fs::directory_iterator(directory_ / "images/m.latest/model-000")) {
    if (entry.path().extension() == ".sst") fs::resize_file(entry.path(), 100);
  }
  ShardServerOptions options;
  options.data_dir = directory_.string();
  const auto server = ShardServer::Start(std::move(options));
  EXPECT_TRUE(absl::IsDataLoss(server.status())) << server.status();
  EXPECT_THAT(std::string(server.status().message()), HasSubstr("m.latest"));
}

TEST_F(ShardServerDiskTest, AnotherShardsDirectoryStopsTheStart) {
  Prepare();
  stub_ = nullptr;
  server_ = nullptr;
  ShardServerOptions options;
  options.data_dir = directory_.string();
  options.shard_id = 1;
  const auto server = ShardServer::Start(std::move(options));
  EXPECT_TRUE(absl::IsFailedPrecondition(server.status())) << server.status();
  EXPECT_THAT(std::string(server.status().message()), HasSubstr("of shard 0, this is shard 1"));
}

}  // namespace
}  // namespace dslide::shard
