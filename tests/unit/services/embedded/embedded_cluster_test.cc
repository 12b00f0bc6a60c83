#include "services/embedded/embedded_cluster.h"

#include <gmock/gmock.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "core/wire/model_spec_codec.h"
#include "dslide/v1/coordinator.grpc.pb.h"
#include "dslide/v1/shard.grpc.pb.h"
#include "services/common/status_mapping.h"
#include "tests/unit/patience.h"
#include "tests/unit/services/coordinator/fakes.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;

// Calls with a deadline.
template <typename Stub, typename Method, typename Request, typename Response>
absl::Status Call(Stub& stub, Method method, const Request& request, Response* response) {
  grpc::ClientContext context;
  context.set_deadline(PatientDeadline());
  return FromGrpcStatus((stub.*method)(&context, request, response));
}

class EmbeddedClusterTest : public ::testing::Test {
 protected:
  using Coordinator = v1::CoordinatorService::Stub;
  using Shard = v1::ShardService::Stub;

  void SetUp() override {
    static int number = 0;
    dir_ = absl::StrCat(::testing::TempDir(), "embedded.", getpid(), ".", number++);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  static std::unique_ptr<EmbeddedCluster> MustStart(const EmbeddedClusterOptions& options) {
    auto cluster = EmbeddedCluster::Start(options);
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    return cluster.ok() ? *std::move(cluster) : nullptr;
  }
  static std::unique_ptr<Coordinator> CoordinatorOf(EmbeddedCluster& cluster) {
    return v1::CoordinatorService::NewStub(*cluster.OpenChannel(cluster.coordinator_address()));
  }
  static v1::GetClusterMapResponse MapOf(EmbeddedCluster& cluster) {
    v1::GetClusterMapResponse map;
    const absl::Status status = Call(*CoordinatorOf(cluster), &Coordinator::GetClusterMap,
                                     v1::GetClusterMapRequest(), &map);
    EXPECT_TRUE(status.ok()) << status;
    return map;
  }
  static absl::StatusOr<bool> RegisterModel(EmbeddedCluster& cluster, const ModelSpec& spec) {
    v1::RegisterModelRequest request;
    wire::EncodeModelSpec(spec, request.mutable_spec());
    v1::RegisterModelResponse response;
    const absl::Status status =
        Call(*CoordinatorOf(cluster), &Coordinator::RegisterModel, request, &response);
    if (!status.ok()) return status;
    return response.created();
  }
  // The operation once it is done.
  static v1::Operation Await(EmbeddedCluster& cluster, const v1::Operation& operation) {
    v1::GetOperationRequest request;
    request.set_operation_id(operation.operation_id());
    request.mutable_wait()->set_seconds(60);
    v1::GetOperationResponse response;
    const absl::Status status =
        Call(*CoordinatorOf(cluster), &Coordinator::GetOperation, request, &response);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(response.operation().done());
    return response.operation();
  }
  // Every table of every shard.
  static std::vector<v1::TableState> TablesOf(EmbeddedCluster& cluster, const std::string& model) {
    std::vector<v1::TableState> tables;
    const v1::GetClusterMapResponse map = MapOf(cluster);
    for (const v1::ShardInfo& info : map.shards()) {
      const auto shard = v1::ShardService::NewStub(*cluster.OpenChannel(info.address()));
      v1::DescribeModelRequest request;
      request.set_model(model);
      request.set_with_digests(true);
      v1::DescribeModelResponse response;
      const absl::Status status = Call(*shard, &Shard::DescribeModel, request, &response);
      EXPECT_TRUE(status.ok()) << status;
      tables.insert(tables.end(), response.tables().begin(), response.tables().end());
    }
    return tables;
  }
  static int64_t RowsOf(const std::vector<v1::TableState>& tables, const std::string& name) {
    int64_t rows = 0;
    for (const v1::TableState& table : tables) {
      if (table.name() == name) rows += table.shard_rows();
    }
    return rows;
  }

  std::string dir_;
};

TEST_F(EmbeddedClusterTest, AModelIsSpreadOverItsShards) {
  const auto cluster =
      MustStart({.shards = 3, .threads_per_shard = 1, .capacity_weights = {1.0, 1.0, 2.0}});
  ASSERT_NE(cluster, nullptr);
  ASSERT_EQ(MapOf(*cluster).shards_size(), 3);
  EXPECT_EQ(MapOf(*cluster).shards(2).capacity_weight(), 2.0);
  EXPECT_TRUE(*RegisterModel(*cluster, coordinator::TestModel("m", 100)));
  EXPECT_FALSE(*RegisterModel(*cluster, coordinator::TestModel("m", 100)));
  const auto tables = TablesOf(*cluster, "m");
  EXPECT_EQ(tables.size(), 6u);
  EXPECT_EQ(RowsOf(tables, "input"), 50);
  EXPECT_EQ(RowsOf(tables, "head"), 100);
  const std::string page = ExposeAll(cluster->metrics());
  EXPECT_THAT(page, HasSubstr("dslide_coordinator_models 1\n"));
  EXPECT_THAT(page, HasSubstr("shard=\"2\""));
}

TEST_F(EmbeddedClusterTest, ADataDirectoryCarriesTheModelOverARestart) {
  std::vector<v1::TableState> before;
  {
    const auto cluster = MustStart({.shards = 2, .threads_per_shard = 1, .data_dir = dir_});
    ASSERT_NE(cluster, nullptr);
    ASSERT_TRUE(RegisterModel(*cluster, coordinator::TestModel("m", 100)).ok());
    v1::CreateCheckpointRequest request;
    request.set_model("m");
    request.set_checkpoint("best");
    v1::CreateCheckpointResponse response;
    const absl::Status status =
        Call(*CoordinatorOf(*cluster), &Coordinator::CreateCheckpoint, request, &response);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(Await(*cluster, response.operation()).create_checkpoint().rows(), 150);
    before = TablesOf(*cluster, "m");
    EXPECT_TRUE(cluster->Stop().ok());
    EXPECT_TRUE(cluster->Stop().ok());
  }
  {
    const auto cluster = MustStart({.shards = 2, .threads_per_shard = 1, .data_dir = dir_});
    ASSERT_NE(cluster, nullptr);
    EXPECT_FALSE(*RegisterModel(*cluster, coordinator::TestModel("m", 100)));
    const auto after = TablesOf(*cluster, "m");
    ASSERT_EQ(after.size(), before.size());
    for (size_t i = 0; i < after.size(); ++i) {
      EXPECT_EQ(after[i].name(), before[i].name());
      EXPECT_EQ(after[i].digest(), before[i].digest());
      EXPECT_NE(after[i].digest(), 0u);
    }
    v1::RestoreCheckpointRequest request;
    request.set_model("m");
    request.set_checkpoint("best");
    v1::RestoreCheckpointResponse response;
    const absl::Status status =
        Call(*CoordinatorOf(*cluster), &Coordinator::RestoreCheckpoint, request, &response);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(Await(*cluster, response.operation()).restore_checkpoint().rows(), 150);
  }
  const auto other =
      EmbeddedCluster::Start({.shards = 3, .threads_per_shard = 1, .data_dir = dir_});
  EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("of a cluster of 2 shards"));
}

TEST_F(EmbeddedClusterTest, WithoutADataDirectoryThereAreNoCheckpoints) {
  const auto cluster = MustStart({.shards = 1, .threads_per_shard = 1});
  ASSERT_NE(cluster, nullptr);
  ASSERT_TRUE(RegisterModel(*cluster, coordinator::TestModel("m")).ok());
  v1::CreateCheckpointRequest request;
  request.set_model("m");
  request.set_checkpoint("best");
  v1::CreateCheckpointResponse response;
  const absl::Status status =
      Call(*CoordinatorOf(*cluster), &Coordinator::CreateCheckpoint, request, &response);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(Await(*cluster, response.operation()).error().reason(), "NO_DATA_DIR");
}

TEST_F(EmbeddedClusterTest, OtherAddressesAndStoppedServersAreErrors) {
  const auto cluster = MustStart({.shards = 1, .threads_per_shard = 1});
  ASSERT_NE(cluster, nullptr);
  EXPECT_EQ(cluster->OpenChannel("127.0.0.1:7000").status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(cluster->Stop().ok());
  EXPECT_FALSE(cluster->OpenChannel(cluster->coordinator_address()).ok());
  EXPECT_TRUE(cluster->metrics().empty());
}

TEST_F(EmbeddedClusterTest, OptionsAreChecked) {
  EXPECT_EQ(EmbeddedCluster::Start({.shards = 0}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EmbeddedCluster::Start({.shards = 2, .capacity_weights = {1.0}}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(EmbeddedCluster::Start({.shards = 1, .capacity_weights = {-1.0}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(EmbeddedClusterTest, TwoClustersLiveInOneProcess) {
  const auto one = MustStart({.shards = 1, .threads_per_shard = 1});
  const auto two = MustStart({.shards = 2, .threads_per_shard = 1});
  ASSERT_TRUE(one != nullptr && two != nullptr);
  EXPECT_TRUE(*RegisterModel(*one, coordinator::TestModel("m")));
  EXPECT_TRUE(*RegisterModel(*two, coordinator::TestModel("m")));
  EXPECT_EQ(MapOf(*one).shards_size(), 1);
  EXPECT_EQ(MapOf(*two).shards_size(), 2);
}

}  // namespace
}  // namespace dslide
