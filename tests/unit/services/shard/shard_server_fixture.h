// A shard server without a coordinator, and a stub over an in-process channel.

#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "core/wire/control_codec.h"
#include "core/wire/row_codec.h"
#include "core/wire/steps/step_codec.h"
#include "dslide/v1/shard.grpc.pb.h"
#include "services/common/status_mapping.h"
#include "services/shard/shard_server.h"
#include "tests/unit/patience.h"
#include "tests/unit/services/shard/state/shard_trainer.h"

namespace dslide::shard {

class ShardServerTest : public ::testing::Test {
 protected:
  void SetUp() override { Start(); }
  void TearDown() override {
    stub_ = nullptr;
    server_ = nullptr;
  }

  void Start(ShardServerOptions options = {}) {
    stub_ = nullptr;
    server_ = nullptr;
    options.server.binary = "test";
    options.server.drain_timeout = absl::Seconds(2);
    options.shard_id = 0;
    options.core.parallelism.threads = 1;
    auto server = ShardServer::Start(std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    ASSERT_TRUE(server_->WaitUntilReady(kPatience).ok());
    stub_ = v1::ShardService::NewStub(server_->runtime().InProcessChannel().value());
  }

  static std::unique_ptr<grpc::ClientContext> Context(absl::Duration timeout = kPatience) {
    auto context = std::make_unique<grpc::ClientContext>();
    context->set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(timeout));
    return context;
  }

  absl::Status Create() {
    v1::CreateModelRequest request;
    wire::EncodeCreateModel(SampleCreate(), &request);
    v1::CreateModelResponse response;
    return FromGrpcStatus(stub_->CreateModel(Context().get(), request, &response));
  }
  absl::StatusOr<HelloReply> Hello(const HelloCommand& command) {
    v1::HelloRequest request;
    wire::EncodeHello(command, &request);
    v1::HelloResponse response;
    const absl::Status status = FromGrpcStatus(stub_->Hello(Context().get(), request, &response));
    if (!status.ok()) return status;
    return wire::DecodeHello(response);
  }
  void Prepare() {
    ASSERT_TRUE(Create().ok());
    ASSERT_TRUE(Hello(trainer_.Hello()).ok());
  }
  absl::StatusOr<DescribeModelReply> Describe() {
    v1::DescribeModelRequest request;
    request.set_model("m");
    request.set_with_digests(true);
    v1::DescribeModelResponse response;
    const absl::Status status =
        FromGrpcStatus(stub_->DescribeModel(Context().get(), request, &response));
    if (!status.ok()) return status;
    return wire::DecodeDescribeModel(response);
  }
  uint64_t HeadDigest() {
    const auto reply = Describe();
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.ok() ? reply->tables[2].digest : 0;
  }

  v1::StepRequest Request(StepOp op, int64_t step) {
    v1::StepRequest request;
    wire::EncodeStepRequest(trainer_.Step(std::move(op), step), {}, &request);
    return request;
  }

  absl::StatusOr<int64_t> Scatter(const std::vector<v1::ScatterRequest>& messages,
                                  absl::Duration timeout = kPatience) {
    v1::ScatterResponse response;
    const auto context = Context(timeout);
    const auto writer = stub_->Scatter(context.get(), &response);
    for (const auto& message : messages) {
      if (!writer->Write(message)) break;
    }
    writer->WritesDone();
    const absl::Status status = FromGrpcStatus(writer->Finish());
    if (!status.ok()) return status;
    return response.applied_steps();
  }

  SampleTrainer trainer_;
  std::unique_ptr<ShardServer> server_;
  std::unique_ptr<v1::ShardService::Stub> stub_;
};

}  // namespace dslide::shard
