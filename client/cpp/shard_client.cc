#include "client/cpp/shard_client.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/channel_factory.h"
#include "client/cpp/grpc_status.h"
#include "client/cpp/unary_call.h"
#include "core/base/status_macros.h"
#include "core/wire/control_codec.h"
#include "core/wire/envelope_codec.h"
#include "core/wire/row_codec.h"
#include "dslide/v1/shard.grpc.pb.h"

namespace dslide {
namespace {

using Stub = v1::ShardService::Stub;

// Reads one gather's answer, chunk by chunk, on gRPC's threads.
class GatherReader final : public grpc::ClientReadReactor<v1::GatherResponse> {
 public:
  GatherReader(std::string peer, WireCounters& counters, ShardClient::Done<GatherReply> done)
      : peer_(std::move(peer)), counters_(counters), done_(std::move(done)) {}

  void Start(Stub& stub, v1::GatherRequest request, absl::Time deadline) {
    request_ = std::move(request);
    PrepareContext(context_, deadline);
    counters_.AddSent(WireMethod::kGather, request_.ByteSizeLong());
    stub.async()->Gather(&context_, &request_, this);
    StartRead(&chunk_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    counters_.AddReceived(WireMethod::kGather, chunk_.ByteSizeLong());
    if (bad_.ok()) bad_ = assembler_.Add(chunk_);
    if (!bad_.ok()) {
      context_.TryCancel();
      return;
    }
    StartRead(&chunk_);
  }

  void OnDone(const grpc::Status& status) override {
    if (!bad_.ok()) {
      done_(bad_);
    } else if (!status.ok()) {
      done_(FromGrpc(status, peer_, "Gather"));
    } else {
      done_(std::move(assembler_).Finish());
    }
    delete this;
  }

 private:
  const std::string peer_;
  WireCounters& counters_;
  const ShardClient::Done<GatherReply> done_;
  grpc::ClientContext context_;
  v1::GatherRequest request_;
  v1::GatherResponse chunk_;
  wire::GatherAssembler assembler_;
  absl::Status bad_;
};

// What one asynchronous top-k call needs until it is answered.
struct TopKCall {
  grpc::ClientContext context;
  v1::TopKRequest request;
  v1::TopKResponse response;
};

}  // namespace

struct ShardClient::Impl {
  std::shared_ptr<grpc::Channel> channel;
  ShardId shard;
  std::string address;
  ClientOptions options;
  WireCounters* counters;
  std::string peer;
  std::unique_ptr<Stub> stub;

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(const char* name, WireMethod method,
                                grpc::Status (Stub::*rpc)(grpc::ClientContext*, const Request&,
                                                          Response*),
                                const Request& request, absl::Duration timeout,
                                bool repeat = true) const {
    const UnaryCall call = {.peer = peer,
                            .remedy = kSilentShardRemedy,
                            .name = name,
                            .method = method,
                            .counters = counters,
                            .timeout = timeout,
                            .retry = options.retry,
                            .repeat = repeat};
    return RunUnaryCall<Request, Response>(call, request,
                                           [&](grpc::ClientContext* context, Response* response) {
                                             return ((*stub).*rpc)(context, request, response);
                                           });
  }

  absl::StatusOr<GatherReply> GatherOnce(const v1::GatherRequest& request, absl::Time deadline) {
    grpc::ClientContext context;
    PrepareContext(context, deadline);
    counters->AddSent(WireMethod::kGather, request.ByteSizeLong());
    const auto reader = stub->Gather(&context, request);
    wire::GatherAssembler assembler;
    v1::GatherResponse chunk;
    absl::Status bad;
    while (bad.ok() && reader->Read(&chunk)) {
      counters->AddReceived(WireMethod::kGather, chunk.ByteSizeLong());
      bad = assembler.Add(chunk);
    }
    if (!bad.ok()) context.TryCancel();
    const grpc::Status status = reader->Finish();
    RETURN_IF_ERROR(bad);
    if (!status.ok()) return FromGrpc(status, peer, "Gather");
    return std::move(assembler).Finish();
  }
};

ShardClient::ShardClient(std::shared_ptr<grpc::Channel> channel, ShardId shard, std::string address,
                         ClientOptions options, WireCounters* counters)
    : impl_(std::make_unique<Impl>()) {
  KeepCallbackQueue();
  impl_->channel = std::move(channel);
  impl_->shard = shard;
  impl_->peer = absl::StrCat("shard ", shard.value(), " at ", address);
  impl_->address = std::move(address);
  impl_->options = std::move(options);
  impl_->counters = counters;
  impl_->stub = v1::ShardService::NewStub(impl_->channel);
}

ShardClient::~ShardClient() = default;

ShardId ShardClient::shard() const { return impl_->shard; }
const std::string& ShardClient::address() const { return impl_->address; }
const std::shared_ptr<grpc::Channel>& ShardClient::channel() const { return impl_->channel; }
const std::string& ShardClient::peer() const { return impl_->peer; }

absl::StatusOr<ShardServerInfo> ShardClient::GetServerInfo() {
  ASSIGN_OR_RETURN(const v1::GetServerInfoResponse response,
                   impl_->Call("GetServerInfo", WireMethod::kShardControl, &Stub::GetServerInfo,
                               v1::GetServerInfoRequest(), impl_->options.timeout));
  ShardServerInfo info;
  info.version = response.version();
  info.revision = response.revision();
  info.shard = ShardId(response.shard_id());
  info.generation = response.generation();
  info.topology_version = response.topology_version();
  info.max_message_bytes = response.max_message_bytes();
  info.capabilities.assign(response.capabilities().begin(), response.capabilities().end());
  return info;
}

absl::StatusOr<HelloReply> ShardClient::Hello(const HelloCommand& command, absl::Duration timeout) {
  v1::HelloRequest request;
  wire::EncodeHello(command, &request);
  ASSIGN_OR_RETURN(const v1::HelloResponse response,
                   impl_->Call("Hello", WireMethod::kShardControl, &Stub::Hello, request, timeout));
  return wire::DecodeHello(response);
}

absl::Status ShardClient::Bye(const ByeCommand& command) {
  v1::ByeRequest request;
  wire::EncodeBye(command, &request);
  return impl_
      ->Call("Bye", WireMethod::kShardControl, &Stub::Bye, request,
             std::min(impl_->options.timeout, absl::Seconds(5)), /*repeat=*/false)
      .status();
}

absl::StatusOr<GatherReply> ShardClient::Gather(const GatherCommand& command) {
  v1::GatherRequest request;
  wire::EncodeGatherRequest({command, ActivationType::kF32}, &request);
  const absl::Time deadline = absl::Now() + impl_->options.timeout;
  for (int attempt = 1;; ++attempt) {
    absl::StatusOr<GatherReply> reply = impl_->GatherOnce(request, deadline);
    if (reply.ok() || !absl::IsUnavailable(reply.status())) return reply;
    const absl::Duration pause = PauseBefore(reply.status(), impl_->options.retry, attempt,
                                             static_cast<uint64_t>(impl_->shard.value()));
    if (absl::Now() + pause >= deadline) return reply;
    absl::SleepFor(pause);
  }
}

absl::StatusOr<TopKReply> ShardClient::TopK(const TopKCommand& command) {
  v1::TopKRequest request;
  wire::EncodeTopKRequest(command, ActivationType::kF32, &request);
  ASSIGN_OR_RETURN(
      const v1::TopKResponse response,
      impl_->Call("TopK", WireMethod::kTopK, &Stub::TopK, request, impl_->options.timeout));
  return wire::DecodeTopKResponse(response, command.batch, command.k);
}

ScatterResult ShardClient::Scatter(const ScatterCommand& command, absl::Duration timeout) {
  grpc::ClientContext context;
  PrepareContext(context, absl::Now() + timeout);
  v1::ScatterResponse response;
  const auto writer = impl_->stub->Scatter(&context, &response);
  for (const v1::ScatterRequest& chunk : wire::EncodeScatter(command, ActivationType::kF32)) {
    impl_->counters->AddSent(WireMethod::kScatter, chunk.ByteSizeLong());
    if (!writer->Write(chunk)) break;  // Finish() says why
  }
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  ScatterResult result;
  result.status = FromGrpc(status, impl_->peer, "Scatter");
  result.outcome = OutcomeOf(result.status);
  if (status.ok()) {
    impl_->counters->AddReceived(WireMethod::kScatter, response.ByteSizeLong());
    result.applied_steps = response.applied_steps();
  }
  return result;
}

absl::StatusOr<bool> ShardClient::CreateModel(const CreateModelCommand& command) {
  v1::CreateModelRequest request;
  wire::EncodeCreateModel(command, &request);
  ASSIGN_OR_RETURN(const v1::CreateModelResponse response,
                   impl_->Call("CreateModel", WireMethod::kShardControl, &Stub::CreateModel,
                               request, impl_->options.timeout));
  return response.created();
}

absl::StatusOr<DescribeModelReply> ShardClient::DescribeModel(const std::string& model,
                                                              bool with_digests) {
  v1::DescribeModelRequest request;
  request.set_model(model);
  request.set_with_digests(with_digests);
  ASSIGN_OR_RETURN(const v1::DescribeModelResponse response,
                   impl_->Call("DescribeModel", WireMethod::kShardControl, &Stub::DescribeModel,
                               request, impl_->options.timeout));
  return wire::DecodeDescribeModel(response);
}

absl::Status ShardClient::DropModel(const std::string& model) {
  v1::DropModelRequest request;
  request.set_model(model);
  return impl_
      ->Call("DropModel", WireMethod::kShardControl, &Stub::DropModel, request,
             impl_->options.timeout)
      .status();
}

absl::StatusOr<int64_t> ShardClient::WriteCheckpoint(const std::string& model,
                                                     const std::string& checkpoint,
                                                     absl::Duration timeout) {
  v1::WriteCheckpointRequest request;
  request.set_model(model);
  request.set_checkpoint(checkpoint);
  ASSIGN_OR_RETURN(const v1::WriteCheckpointResponse response,
                   impl_->Call("WriteCheckpoint", WireMethod::kShardControl, &Stub::WriteCheckpoint,
                               request, timeout));
  return response.rows();
}

absl::StatusOr<int64_t> ShardClient::LoadCheckpoint(const std::string& model,
                                                    const std::string& checkpoint,
                                                    absl::Duration timeout) {
  v1::LoadCheckpointRequest request;
  request.set_model(model);
  request.set_checkpoint(checkpoint);
  ASSIGN_OR_RETURN(const v1::LoadCheckpointResponse response,
                   impl_->Call("LoadCheckpoint", WireMethod::kShardControl, &Stub::LoadCheckpoint,
                               request, timeout));
  return response.rows();
}

void ShardClient::GatherAsync(const GatherCommand& command, Done<GatherReply> done) {
  v1::GatherRequest request;
  wire::EncodeGatherRequest({command, ActivationType::kF32}, &request);
  // Deletes itself when the call is over.
  auto* reader = new GatherReader(impl_->peer, *impl_->counters, std::move(done));
  reader->Start(*impl_->stub, std::move(request), absl::Now() + impl_->options.timeout);
}

void ShardClient::TopKAsync(const TopKCommand& command, Done<TopKReply> done) {
  auto call = std::make_shared<TopKCall>();  // shared with the callback, which is its last owner
  wire::EncodeTopKRequest(command, ActivationType::kF32, &call->request);
  PrepareContext(call->context, absl::Now() + impl_->options.timeout);
  impl_->counters->AddSent(WireMethod::kTopK, call->request.ByteSizeLong());
  impl_->stub->async()->TopK(
      &call->context, &call->request, &call->response,
      [call, done = std::move(done), peer = impl_->peer, counters = impl_->counters,
       batch = command.batch, k = command.k](const grpc::Status& status) {
        if (!status.ok()) {
          done(FromGrpc(status, peer, "TopK"));
          return;
        }
        counters->AddReceived(WireMethod::kTopK, call->response.ByteSizeLong());
        done(wire::DecodeTopKResponse(call->response, batch, k));
      });
}

}  // namespace dslide
