// Calls of a trainer that does not use the client library: in the name of any client.

#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "client/cpp/channel_factory.h"
#include "core/net/tls/tls_files.h"
#include "dslide/v1/shard.grpc.pb.h"
#include "tests/unit/patience.h"

namespace dslide {

// One trainer's calls on a shard, as another client than the library would be.
class RawTrainer {
 public:
  RawTrainer(const std::string& shard, const TlsFiles& files, std::string job = "job")
      : job_(std::move(job)),
        stub_(v1::ShardService::NewStub(*NetworkChannels({.tls = files})(shard))) {}

  grpc::Status Hello(const std::string& client) const {
    v1::HelloRequest request;
    request.set_job(job_);
    request.set_client_id(client);
    v1::HelloResponse response;
    return Call(
        [&](grpc::ClientContext* context) { return stub_->Hello(context, request, &response); });
  }
  grpc::Status CloseClient(const std::string& client) const {
    v1::CloseClientRequest request;
    request.set_job(job_);
    request.set_client_id(client);
    v1::CloseClientResponse response;
    return Call([&](grpc::ClientContext* context) {
      return stub_->CloseClient(context, request, &response);
    });
  }
  grpc::Status Scatter(const std::string& client) const {
    v1::ScatterRequest request;
    FillEnvelope(client, request.mutable_envelope());
    request.set_table("hidden");
    request.set_mode(v1::SCATTER_MODE_ADD);
    v1::ScatterResponse response;
    return Call([&](grpc::ClientContext* context) {
      const auto writer = stub_->Scatter(context, &response);
      writer->Write(request);
      writer->WritesDone();
      return writer->Finish();
    });
  }
  // The code in the answer to one step.
  int Step(const std::string& client) const {
    v1::StepRequest request;
    FillEnvelope(client, request.mutable_envelope());
    request.set_step(1);
    request.mutable_dense_gather()->set_table("hidden");
    v1::StepResponse response;
    const grpc::Status status = Call([&](grpc::ClientContext* context) {
      const auto stream = stub_->Step(context);
      stream->Write(request);
      EXPECT_TRUE(stream->Read(&response));
      stream->WritesDone();
      return stream->Finish();
    });
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.error().code();
  }

 private:
  void FillEnvelope(const std::string& client, v1::RequestEnvelope* envelope) const {
    envelope->set_job(job_);
    envelope->set_client_id(client);
    envelope->set_sequence(1);
    envelope->set_first_incomplete(1);
    envelope->set_model("small");
  }
  template <typename Work>
  static grpc::Status Call(const Work& work) {
    grpc::ClientContext context;
    context.set_deadline(PatientDeadline());
    return work(&context);
  }

  const std::string job_;
  const std::unique_ptr<v1::ShardService::Stub> stub_;
};

}  // namespace dslide
