// The coordinator over gRPC, with stand-in shards over gRPC: everything between the wire and the
// state machines. No sockets: all channels are in-process.

#include "services/coordinator/rpc/coordinator_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "core/base/reason.h"
#include "core/wire/model_spec_codec.h"
#include "dslide/v1/shard.grpc.pb.h"
#include "services/common/status_mapping.h"
#include "services/coordinator/coordinator_server.h"
#include "tests/unit/patience.h"
#include "tests/unit/services/coordinator/fakes.h"

namespace dslide::coordinator {
namespace {

using ::testing::HasSubstr;

// Knows models by name, and can be told to refuse.
class StandInShard final : public v1::ShardService::Service {
 public:
  grpc::Status CreateModel(grpc::ServerContext*, const v1::CreateModelRequest* request,
                           v1::CreateModelResponse* response) override {
    const absl::MutexLock lock(&mu);
    if (!failure.ok()) return ToGrpcStatus(failure);
    response->set_created(requests.emplace(request->spec().name(), *request).second);
    return grpc::Status::OK;
  }
  grpc::Status DropModel(grpc::ServerContext*, const v1::DropModelRequest* request,
                         v1::DropModelResponse*) override {
    const absl::MutexLock lock(&mu);
    return requests.erase(request->model()) > 0
               ? grpc::Status::OK
               : grpc::Status(grpc::StatusCode::NOT_FOUND, "no model");
  }
  grpc::Status WriteCheckpoint(grpc::ServerContext*, const v1::WriteCheckpointRequest* request,
                               v1::WriteCheckpointResponse* response) override {
    response->set_rows(7);
    response->set_bytes(700);
    return grpc::Status::OK;
  }
  grpc::Status LoadCheckpoint(grpc::ServerContext*, const v1::LoadCheckpointRequest* request,
                              v1::LoadCheckpointResponse* response) override {
    response->set_rows(7);
    return grpc::Status::OK;
  }

  absl::Mutex mu;
  absl::Status failure;
  std::map<std::string, v1::CreateModelRequest> requests;
};

class CoordinatorServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 2; ++i) {
      auto runtime = ServerRuntime::Start({.binary = "shard"},
                                          {{&shards_[i], "dslide.v1.ShardService"}}, metrics_);
      ASSERT_TRUE(runtime.ok()) << runtime.status();
      runtimes_[i] = *std::move(runtime);
    }
    CoordinatorServerOptions options;
    options.coordinator.membership.expected_shards = 2;
    options.clock = &clock_;
    options.channels =
        [this](const std::string& address) -> absl::StatusOr<std::shared_ptr<grpc::Channel>> {
      if (address == "inproc:0") return runtimes_[0]->InProcessChannel();
      if (address == "inproc:1") return runtimes_[1]->InProcessChannel();
      return absl::InvalidArgumentError("no such shard: " + address);
    };
    auto server = CoordinatorServer::Start(std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::CoordinatorService::NewStub(*server_->runtime().InProcessChannel());
  }

  static void SetDeadline(grpc::ClientContext& context) { context.set_deadline(PatientDeadline()); }
  // Makes one call; its status.
  template <typename Method, typename Request, typename Response>
  absl::Status Call(Method method, const Request& request, Response* response) {
    grpc::ClientContext context;
    SetDeadline(context);
    return FromGrpcStatus((stub_.get()->*method)(&context, request, response));
  }

  absl::Status Register(int32_t shard, const std::string& address, v1::RegisterShardResponse* out) {
    v1::RegisterShardRequest request;
    request.set_shard_id(shard);
    request.set_address(address);
    request.set_capacity_weight(1.0);
    request.set_instance_id(Instance(static_cast<char>(address.back())));
    return Call(&v1::CoordinatorService::Stub::RegisterShard, request, out);
  }
  void RegisterBoth() {
    v1::RegisterShardResponse response;
    ASSERT_TRUE(Register(-1, "inproc:0", &response).ok());
    EXPECT_EQ(response.shard_id(), 0);
    EXPECT_EQ(response.generation(), 1u);
    EXPECT_EQ(response.heartbeat_interval().seconds(), 1);
    ASSERT_TRUE(Register(1, "inproc:1", &response).ok());
    EXPECT_EQ(response.shard_id(), 1);
  }
  absl::Status RegisterModel(const ModelSpec& spec, bool* created) {
    v1::RegisterModelRequest request;
    wire::EncodeModelSpec(spec, request.mutable_spec());
    v1::RegisterModelResponse response;
    const absl::Status status =
        Call(&v1::CoordinatorService::Stub::RegisterModel, request, &response);
    *created = response.created();
    return status;
  }

  // The operation once it is done.
  v1::Operation Await(const v1::Operation& operation) {
    v1::GetOperationRequest request;
    request.set_operation_id(operation.operation_id());
    request.mutable_wait()->set_seconds(60);
    v1::GetOperationResponse response;
    const absl::Status status =
        Call(&v1::CoordinatorService::Stub::GetOperation, request, &response);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(response.operation().done());
    return response.operation();
  }

  FakeClock clock_;
  Metrics metrics_;
  StandInShard shards_[2];
  std::unique_ptr<ServerRuntime> runtimes_[2];
  std::unique_ptr<CoordinatorServer> server_;
  std::unique_ptr<v1::CoordinatorService::Stub> stub_;
};

TEST_F(CoordinatorServiceTest, ShardsRegisterBeatAndLeave) {
  v1::GetClusterMapResponse map;
  const absl::Status early =
      Call(&v1::CoordinatorService::Stub::GetClusterMap, v1::GetClusterMapRequest(), &map);
  EXPECT_EQ(early.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(early), "NOT_ALL_SHARDS");
  RegisterBoth();
  v1::HeartbeatRequest beat;
  beat.set_shard_id(1);
  beat.set_generation(1);
  beat.set_memory_bytes(123);
  beat.set_applied_commands(456);
  v1::HeartbeatResponse beat_response;
  ASSERT_TRUE(Call(&v1::CoordinatorService::Stub::Heartbeat, beat, &beat_response).ok());
  EXPECT_EQ(beat_response.topology_version(), 1u);
  ASSERT_TRUE(
      Call(&v1::CoordinatorService::Stub::GetClusterMap, v1::GetClusterMapRequest(), &map).ok());
  ASSERT_EQ(map.shards_size(), 2);
  EXPECT_EQ(map.shards(1).health(), v1::SHARD_HEALTH_ALIVE);
  EXPECT_EQ(map.shards(1).address(), "inproc:1");
  EXPECT_EQ(map.shards(1).memory_bytes(), 123);
  EXPECT_EQ(map.shards(1).applied_commands(), 456);
  v1::DeregisterShardRequest leave;
  leave.set_shard_id(0);
  leave.set_generation(1);
  v1::DeregisterShardResponse left;
  ASSERT_TRUE(Call(&v1::CoordinatorService::Stub::DeregisterShard, leave, &left).ok());
  const absl::Status late =
      Call(&v1::CoordinatorService::Stub::GetClusterMap, v1::GetClusterMapRequest(), &map);
  EXPECT_EQ(ReasonOf(late), "NOT_ALL_SHARDS");
  v1::GetClusterStatusResponse status;
  ASSERT_TRUE(
      Call(&v1::CoordinatorService::Stub::GetClusterStatus, v1::GetClusterStatusRequest(), &status)
          .ok());
  ASSERT_EQ(status.shards_size(), 2);
  EXPECT_EQ(status.shards(0).health(), v1::SHARD_HEALTH_LEFT);
}

TEST_F(CoordinatorServiceTest, AModelGoesToAllShardsAndBackToClients) {
  RegisterBoth();
  bool created = false;
  ASSERT_TRUE(RegisterModel(TestModel("m"), &created).ok());
  EXPECT_TRUE(created);
  ASSERT_TRUE(RegisterModel(TestModel("m"), &created).ok());
  EXPECT_FALSE(created);
  {
    const absl::MutexLock lock(&shards_[1].mu);
    const v1::CreateModelRequest& request = shards_[1].requests.at("m");
    EXPECT_EQ(request.shard_id(), 1);
    EXPECT_EQ(request.topology_version(), 1u);
    ASSERT_EQ(request.slots_size(), 2);
    EXPECT_EQ(request.slots(0).owners().size(), 2u * 16u);
  }
  v1::ListModelsResponse list;
  ASSERT_TRUE(Call(&v1::CoordinatorService::Stub::ListModels, v1::ListModelsRequest(), &list).ok());
  ASSERT_EQ(list.models_size(), 1);
  EXPECT_EQ(*wire::DecodeModelSpec(list.models(0), true), TestModel("m"));
  v1::UnregisterModelRequest drop;
  drop.set_model("m");
  v1::UnregisterModelResponse dropped;
  ASSERT_TRUE(Call(&v1::CoordinatorService::Stub::UnregisterModel, drop, &dropped).ok());
  EXPECT_EQ(ReasonOf(Call(&v1::CoordinatorService::Stub::UnregisterModel, drop, &dropped)),
            "UNKNOWN_MODEL");
}

TEST_F(CoordinatorServiceTest, AShardsRefusalArrivesWithItsReason) {
  RegisterBoth();
  {
    const absl::MutexLock lock(&shards_[1].mu);
    shards_[1].failure =
        StatusWithReason(absl::StatusCode::kResourceExhausted, "OUT_OF_MEMORY", "12 GiB wanted");
  }
  bool created = false;
  const absl::Status failed = RegisterModel(TestModel("m"), &created);
  EXPECT_EQ(failed.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(failed), "OUT_OF_MEMORY");
  EXPECT_THAT(std::string(failed.message()), HasSubstr("shard 1 at inproc:1"));
  const absl::MutexLock lock(&shards_[0].mu);
  EXPECT_TRUE(shards_[0].requests.empty());
}

TEST_F(CoordinatorServiceTest, AMalformedModelIsRefused) {
  RegisterBoth();
  v1::RegisterModelResponse response;
  EXPECT_EQ(
      Call(&v1::CoordinatorService::Stub::RegisterModel, v1::RegisterModelRequest(), &response)
          .code(),
      absl::StatusCode::kInvalidArgument);
  bool created = false;
  EXPECT_EQ(RegisterModel(TestModel("m", 0), &created).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CoordinatorServiceTest, AJobRunsToItsEnd) {
  RegisterBoth();
  bool created = false;
  ASSERT_TRUE(RegisterModel(TestModel("m"), &created).ok());
  v1::RegisterJobRequest job;
  job.mutable_spec()->set_job("job");
  job.mutable_spec()->set_model("m");
  job.mutable_spec()->set_samples_per_epoch(15);
  job.mutable_spec()->set_chunk_samples(10);
  job.mutable_spec()->set_max_epochs(1);
  job.mutable_spec()->set_evaluate(true);
  v1::RegisterJobResponse registered;
  EXPECT_EQ(ReasonOf(Call(&v1::CoordinatorService::Stub::RegisterJob, job, &registered)),
            "BAD_CLIENT_ID");
  job.set_client_id(std::string(16, 'c'));
  ASSERT_TRUE(Call(&v1::CoordinatorService::Stub::RegisterJob, job, &registered).ok());
  EXPECT_TRUE(registered.created());

  v1::AcquireWorkRequest acquire;
  acquire.set_job("job");
  acquire.set_client_id(std::string(16, 'c'));
  acquire.set_want_work(true);
  v1::AcquireWorkResponse work;
  std::vector<v1::AcquireWorkResponse::WorkCase> cases;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(Call(&v1::CoordinatorService::Stub::AcquireWork, acquire, &work).ok());
    cases.push_back(work.work_case());
    acquire.clear_finished();
    if (work.has_chunk()) {
      acquire.add_finished()->set_lease_id(work.chunk().lease_id());
      acquire.mutable_finished(0)->set_samples(work.chunk().count());
    } else if (work.has_evaluation()) {
      EXPECT_EQ(work.evaluation().metric_to_beat(), -std::numeric_limits<double>::infinity());
      acquire.add_finished()->set_lease_id(work.evaluation().lease_id());
      acquire.mutable_finished(0)->set_metric(0.75);
    } else if (work.has_stage()) {
      EXPECT_EQ(work.stage().stage(), v1::JOB_STAGE_COMPLETION);
      acquire.add_finished()->set_lease_id(work.stage().lease_id());
      acquire.mutable_finished(0)->set_best_restored(true);
    } else {
      break;
    }
  }
  using W = v1::AcquireWorkResponse;
  EXPECT_THAT(
      cases, ::testing::ElementsAre(W::kChunk, W::kChunk, W::kEvaluation, W::kStage, W::kFinished));
  EXPECT_EQ(work.finished().best_epoch(), 0);
  EXPECT_EQ(work.finished().best_metric(), 0.75);
  EXPECT_TRUE(work.finished().best_restored());

  v1::GetClusterStatusResponse status;
  ASSERT_TRUE(
      Call(&v1::CoordinatorService::Stub::GetClusterStatus, v1::GetClusterStatusRequest(), &status)
          .ok());
  ASSERT_EQ(status.jobs_size(), 1);
  EXPECT_TRUE(status.jobs(0).finished());
  EXPECT_EQ(status.expected_shards(), 2);
  EXPECT_THAT(status.models(), ::testing::ElementsAre("m"));
  EXPECT_NE(status.version(), "");
}

TEST_F(CoordinatorServiceTest, CheckpointsAreTakenOnAllShards) {
  RegisterBoth();
  bool created = false;
  ASSERT_TRUE(RegisterModel(TestModel("m"), &created).ok());
  v1::CreateCheckpointRequest create;
  create.set_model("m");
  create.set_checkpoint("best");
  v1::CreateCheckpointResponse created_response;
  ASSERT_TRUE(
      Call(&v1::CoordinatorService::Stub::CreateCheckpoint, create, &created_response).ok());
  EXPECT_EQ(created_response.operation().target(), "m/best");
  const v1::Operation written = Await(created_response.operation());
  EXPECT_EQ(written.kind(), "create-checkpoint");
  EXPECT_EQ(written.create_checkpoint().rows(), 14);
  EXPECT_EQ(written.create_checkpoint().bytes(), 1400);
  v1::RestoreCheckpointRequest restore;
  restore.set_model("m");
  restore.set_checkpoint("best");
  v1::RestoreCheckpointResponse restored;
  ASSERT_TRUE(Call(&v1::CoordinatorService::Stub::RestoreCheckpoint, restore, &restored).ok());
  EXPECT_EQ(Await(restored.operation()).restore_checkpoint().rows(), 14);
  // What is wrong with the request is said at once.
  create.set_checkpoint("../best");
  EXPECT_EQ(
      ReasonOf(Call(&v1::CoordinatorService::Stub::CreateCheckpoint, create, &created_response)),
      "BAD_NAME");
  create.set_checkpoint("best");
  create.set_model("none");
  EXPECT_EQ(
      ReasonOf(Call(&v1::CoordinatorService::Stub::CreateCheckpoint, create, &created_response)),
      "UNKNOWN_MODEL");
}

TEST_F(CoordinatorServiceTest, AnOperationsErrorIsItsOwn) {
  v1::CreateClusterCheckpointResponse started;
  ASSERT_TRUE(Call(&v1::CoordinatorService::Stub::CreateClusterCheckpoint,
                   v1::CreateClusterCheckpointRequest(), &started)
                  .ok());
  const v1::Operation ended = Await(started.operation());
  EXPECT_EQ(ended.error().code(), static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(ended.error().reason(), "NO_DATA_DIR");
  EXPECT_EQ(ended.result_case(), v1::Operation::RESULT_NOT_SET);
  v1::CancelOperationRequest cancel;
  cancel.set_operation_id(ended.operation_id());
  v1::CancelOperationResponse told;
  EXPECT_TRUE(Call(&v1::CoordinatorService::Stub::CancelOperation, cancel, &told).ok());
  EXPECT_EQ(told.operation().error().reason(), "NO_DATA_DIR") << "it is done already";
  v1::ListOperationsResponse all;
  ASSERT_TRUE(
      Call(&v1::CoordinatorService::Stub::ListOperations, v1::ListOperationsRequest(), &all).ok());
  ASSERT_EQ(all.operations_size(), 1);
  EXPECT_EQ(all.operations(0).operation_id(), ended.operation_id());
  v1::GetClusterStatusResponse status;
  ASSERT_TRUE(
      Call(&v1::CoordinatorService::Stub::GetClusterStatus, v1::GetClusterStatusRequest(), &status)
          .ok());
  EXPECT_EQ(status.operations_size(), 0) << "only those that run";
}

TEST_F(CoordinatorServiceTest, WaitsForOperationsHaveALimit) {
  v1::GetOperationRequest request;
  request.mutable_wait()->set_seconds(61);
  v1::GetOperationResponse response;
  EXPECT_EQ(ReasonOf(Call(&v1::CoordinatorService::Stub::GetOperation, request, &response)),
            "OUT_OF_RANGE");
  request.mutable_wait()->set_seconds(60);
  EXPECT_EQ(ReasonOf(Call(&v1::CoordinatorService::Stub::GetOperation, request, &response)),
            "UNKNOWN_OPERATION");
}

TEST_F(CoordinatorServiceTest, ModelsComeInPages) {
  RegisterBoth();
  bool created = false;
  for (const char* name : {"b", "d", "a", "c"}) {
    ASSERT_TRUE(RegisterModel(TestModel(name), &created).ok());
  }
  std::vector<std::string> seen;
  v1::ListModelsRequest request;
  request.set_page_size(2);
  do {
    v1::ListModelsResponse page;
    ASSERT_TRUE(Call(&v1::CoordinatorService::Stub::ListModels, request, &page).ok());
    EXPECT_LE(page.models_size(), 2);
    for (const v1::ModelSpec& model : page.models()) seen.push_back(model.name());
    // What comes between two pages moves none of the others.
    ASSERT_TRUE(RegisterModel(TestModel("aa"), &created).ok());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(seen, ::testing::ElementsAre("a", "b", "c", "d"));
  request.set_page_token("of nobody");
  v1::ListModelsResponse page;
  EXPECT_EQ(ReasonOf(Call(&v1::CoordinatorService::Stub::ListModels, request, &page)),
            "BAD_PAGE_TOKEN");
}

TEST_F(CoordinatorServiceTest, AShardThatIsDownIsAnErrorWithinTheDeadline) {
  RegisterBoth();
  runtimes_[1]->Drain().IgnoreError();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(2));
  v1::RegisterModelRequest request;
  wire::EncodeModelSpec(TestModel("m"), request.mutable_spec());
  v1::RegisterModelResponse response;
  const absl::Status down = FromGrpcStatus(stub_->RegisterModel(&context, request, &response));
  EXPECT_TRUE(absl::IsUnavailable(down) || absl::IsDeadlineExceeded(down)) << down;
}

TEST_F(CoordinatorServiceTest, EveryCallIsCounted) {
  RegisterBoth();
  EXPECT_THAT(server_->metrics().Expose(),
              ::testing::ContainsRegex("grpc_server_started_total\\{[^}]*RegisterShard[^}]*\\} 2"));
}

}  // namespace
}  // namespace dslide::coordinator
