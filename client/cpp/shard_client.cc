#include "client/cpp/shard_client.h"

#include <grpcpp/grpcpp.h>

#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "client/cpp/bulk_calls.h"
#include "client/cpp/channel_factory.h"
#include "client/cpp/grpc_status.h"
#include "client/cpp/unary_call.h"
#include "core/base/status_macros.h"
#include "core/net/rpc/local_shard.h"
#include "core/net/trace/trace_context.h"
#include "core/wire/arrays/explicit_rows_codec.h"
#include "core/wire/control_codec.h"
#include "core/wire/envelope_codec.h"
#include "core/wire/request_id.h"
#include "core/wire/row_codec.h"
#include "core/wire/steps/read_codec.h"
#include "core/wire/steps/step_codec.h"
#include "core/wire/stored_rows_codec.h"
#include "dslide/v1/shard.grpc.pb.h"

namespace dslide {
namespace {

using Stub = v1::ShardService::Stub;

// To wake a thread of the shard for so few queries takes as long as to answer them; for more of
// them, or a scan of all rows, shards had better work side by side.
constexpr int64_t kFewQueries = 4;

bool IsLittle(const TopKCommand& query, ShardClient::Turn turn) {
  if (query.batch > kFewQueries) return false;
  return !query.candidates.empty() || (query.hashed && turn == ShardClient::Turn::kLast);
}

bool IsLittle(const StepOp& op) {
  if (const auto* sums = std::get_if<EmbedForwardOp>(&op)) {
    return static_cast<int64_t>(sums->offsets.size()) <= kFewQueries + 1;
  }
  if (const auto* near = std::get_if<FindNeighboursOp>(&op)) {
    return near->inputs.batch() <= kFewQueries;
  }
  const auto* scores = std::get_if<ScoreRowsOp>(&op);
  return scores == nullptr || scores->inputs.batch() <= kFewQueries;
}

// What an asynchronous call needs until it is answered. Through gRPC it has a context, else a
// caller.
template <typename Request, typename Response>
struct AsyncCall {
  std::string request_id;
  std::string trace;
  absl::Time deadline;
  std::optional<grpc::ClientContext> context;
  LocalCaller caller;
  Request request;
  Response response;
};

// A method that both gRPC and shards of this process have.
template <typename Request, typename Response>
struct SharedMethod {
  const char* name;
  WireMethod method;
  void (Stub::async_interface::*remote)(grpc::ClientContext*, const Request*, Response*,
                                        std::function<void(grpc::Status)>);
  void (LocalShard::*local)(const LocalCaller&, const Request&, Response*, LocalShard::Done);
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
  LocalShard* local = nullptr;  // null: of another process

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
                            .repeat = repeat,
                            .request_id = options.request_id};
    return RunUnaryCall<Request, Response>(call, request,
                                           [&](grpc::ClientContext* context, Response* response) {
                                             return ((*stub).*rpc)(context, request, response);
                                           });
  }

  template <typename Call>
  void PrepareLocal(bool little, Call& call) const {
    call.caller.metadata.emplace(wire::kRequestIdKey, call.request_id);
    if (const TraceContext& trace = CurrentTrace(); trace.valid()) {
      call.trace = trace.ToTraceparent();
      call.caller.metadata.emplace(kTraceparentKey, call.trace);
    }
    call.caller.patience = options.timeout;
    call.caller.run_here = little;
  }

  // Starts a call. `fill` makes the request; `done` hears the error, or the response while it runs.
  template <typename Request, typename Response, typename Fill>
  void Ask(SharedMethod<Request, Response> method, bool little, const Fill& fill,
           Done<const Response*> done) const {
    // Shared with the callback, which is its last owner.
    auto call = std::make_shared<AsyncCall<Request, Response>>();
    fill(&call->request);
    call->request_id = wire::RequestIdOrNew(options.request_id);
    call->deadline = absl::Now() + options.timeout;
    const auto end = [call, method, done = std::move(done), of = peer](const grpc::Status& status) {
      if (!status.ok()) return done(FromGrpc(status, of, method.name, call->request_id));
      done(&call->response);
    };
    if (local != nullptr) {
      PrepareLocal(little, *call);
      (local->*method.local)(
          call->caller, call->request, &call->response, [call, end](const grpc::Status& status) {
            // As gRPC says it of an answer that comes too late.
            end(absl::Now() <= call->deadline
                    ? status
                    : grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded"));
          });
      return;
    }
    PrepareContext(call->context.emplace(), call->deadline, call->request_id);
    counters->AddSent(method.method, call->request.ByteSizeLong());
    (stub->async()->*method.remote)(
        &*call->context, &call->request, &call->response,
        [call, end, method, sums = counters](const grpc::Status& status) {
          if (status.ok()) sums->AddReceived(method.method, call->response.ByteSizeLong());
          end(status);
        });
  }

  BulkPeer Peer() const { return {channel, peer, counters, options.request_id}; }

  absl::StatusOr<GatherReply> GatherOnce(const v1::GatherRequest& request,
                                         const wire::GatherTarget* target, absl::Time deadline) {
    absl::StatusOr<GatherReply> reply;
    absl::Notification ready;
    StartGather(Peer(), request, target, deadline, [&](absl::StatusOr<GatherReply> result) {
      reply = std::move(result);
      ready.Notify();
    });
    ready.WaitForNotification();
    return reply;
  }

  absl::StatusOr<GatherReply> Gather(const GatherCommand& command,
                                     const wire::GatherTarget* target) {
    v1::GatherRequest request;
    wire::EncodeGatherRequest({command, ActivationType::kF32}, &request);
    const absl::Time deadline = absl::Now() + options.timeout;
    return RepeatUnavailable(options.retry, deadline, static_cast<uint64_t>(shard.value()),
                             [&] { return GatherOnce(request, target, deadline); });
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
  if (impl_->options.local_shards) impl_->local = impl_->options.local_shards(impl_->address);
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

absl::StatusOr<ShardGreeting> ShardClient::Hello(const HelloCommand& command,
                                                 absl::Duration timeout) {
  v1::HelloRequest request;
  wire::EncodeHello(command, &request);
  ASSIGN_OR_RETURN(const v1::HelloResponse response,
                   impl_->Call("Hello", WireMethod::kShardControl, &Stub::Hello, request, timeout));
  const auto has = [&words = response.capabilities()](absl::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  return ShardGreeting{.reply = wire::DecodeHello(response),
                       .capabilities = {.packed_steps = has(wire::kPackedSteps),
                                        .explicit_rows = has(wire::kExplicitRows),
                                        .averaged_rows = has(wire::kAveragedRows),
                                        .label_weights = has(wire::kLabelWeights),
                                        .sparse_matrices = has(wire::kSparseMatrices)}};
}

absl::Status ShardClient::CloseClient(const CloseClientCommand& command) {
  v1::CloseClientRequest request;
  wire::EncodeCloseClient(command, &request);
  return impl_
      ->Call("CloseClient", WireMethod::kShardControl, &Stub::CloseClient, request,
             std::min(impl_->options.timeout, absl::Seconds(5)), /*repeat=*/false)
      .status();
}

absl::StatusOr<GatherReply> ShardClient::Gather(const GatherCommand& command) {
  return impl_->Gather(command, /*target=*/nullptr);
}

absl::Status ShardClient::GatherInto(const GatherCommand& command, int64_t dim,
                                     absl::Span<float> values, absl::Span<float> biases) {
  const auto n = static_cast<int64_t>(command.rows.size());
  if (command.by_fingerprint || static_cast<int64_t>(values.size()) != n * dim ||
      (!biases.empty() && static_cast<int64_t>(biases.size()) != n)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a gather of ", n, " rows of ", dim, " floats by id needs room for ", n * dim,
        " values and 0 or ", n, " biases, not for ", values.size(), " and ", biases.size()));
  }
  const wire::GatherTarget target = {
      .rows = command.rows, .dim = dim, .values = values, .biases = biases, .places = {}};
  return impl_->Gather(command, &target).status();
}

absl::StatusOr<TopKReply> ShardClient::TopK(const TopKCommand& command) {
  v1::TopKRequest request;
  wire::EncodeTopKRequest(command, ActivationType::kF32, &request);
  ASSIGN_OR_RETURN(
      const v1::TopKResponse response,
      impl_->Call("TopK", WireMethod::kTopK, &Stub::TopK, request, impl_->options.timeout));
  return wire::DecodeTopKResponse(response, command.batch, command.k);
}

ScatterResult ShardClient::Scatter(std::shared_ptr<const ScatterCommand> command,
                                   absl::Duration timeout) {
  const absl::StatusOr<v1::ScatterResponse> response =
      RunScatter(impl_->Peer(), std::move(command), absl::Now() + timeout);
  ScatterResult result;
  result.status = response.status();
  result.outcome = OutcomeOf(result.status);
  if (response.ok()) result.applied_steps = response->applied_steps();
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

absl::StatusOr<ReadRowsReply> ShardClient::ReadRows(const ReadRowsCommand& command) {
  v1::ReadRowsRequest request;
  wire::EncodeReadRows(command, &request);
  ASSIGN_OR_RETURN(const v1::ReadRowsResponse response,
                   impl_->Call("ReadRows", WireMethod::kGather, &Stub::ReadRows, request,
                               impl_->options.timeout));
  return wire::DecodeReadRows(response, command);
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

void ShardClient::GatherAsync(const GatherCommand& command, const wire::GatherTarget& target,
                              Done<GatherReply> done) {
  v1::GatherRequest request;
  wire::EncodeGatherRequest({command, ActivationType::kF32}, &request);
  StartGather(impl_->Peer(), std::move(request), &target, absl::Now() + impl_->options.timeout,
              std::move(done));
}

void ShardClient::ReadAsync(const ReadCommand& command, ActivationType activations,
                            Done<ReplyBody> done) {
  impl_->Ask<v1::ReadRequest, v1::ReadResponse>(
      {.name = "Read",
       .method = WireMethod::kRead,
       .remote = &Stub::async_interface::Read,
       .local = &LocalShard::Read},
      IsLittle(command.op),
      [&](v1::ReadRequest* request) {
        wire::EncodeReadRequest(command, {.activations = activations, .packed = true}, request);
      },
      [done = std::move(done)](absl::StatusOr<const v1::ReadResponse*> response) {
        done(response.ok() ? wire::DecodeReadResponse(**response) : response.status());
      });
}

void ShardClient::TopKAsync(const TopKCommand& command, Turn turn, Done<TopKReply> done) {
  impl_->Ask<v1::TopKRequest, v1::TopKResponse>(
      {.name = "TopK",
       .method = WireMethod::kTopK,
       .remote = &Stub::async_interface::TopK,
       .local = &LocalShard::TopK},
      IsLittle(command, turn),
      [&](v1::TopKRequest* request) {
        wire::EncodeTopKRequest(command, ActivationType::kF32, request);
      },
      [done = std::move(done), batch = command.batch,
       k = command.k](absl::StatusOr<const v1::TopKResponse*> response) {
        done(response.ok() ? wire::DecodeTopKResponse(**response, batch, k) : response.status());
      });
}

absl::StatusOr<std::string> ShardClient::ReadCheckpointFile(uint64_t checkpoint_id,
                                                            const std::string& path,
                                                            int64_t offset) {
  v1::ReadCheckpointFileRequest request;
  request.set_checkpoint_id(checkpoint_id);
  request.set_path(path);
  request.set_offset(offset);
  ASSIGN_OR_RETURN(v1::ReadCheckpointFileResponse response,
                   impl_->Call("ReadCheckpointFile", WireMethod::kShardControl,
                               &Stub::ReadCheckpointFile, request, impl_->options.timeout));
  return std::move(*response.mutable_data());
}

absl::Status ShardClient::WriteCheckpointFile(uint64_t checkpoint_id, const std::string& path,
                                              int64_t offset, std::string piece) {
  v1::WriteCheckpointFileRequest request;
  request.set_checkpoint_id(checkpoint_id);
  request.set_path(path);
  request.set_offset(offset);
  request.set_data(std::move(piece));
  return impl_
      ->Call("WriteCheckpointFile", WireMethod::kShardControl, &Stub::WriteCheckpointFile, request,
             impl_->options.timeout)
      .status();
}

absl::Status ShardClient::AdoptCheckpoint(uint64_t checkpoint_id, uint32_t files_checksum,
                                          absl::Duration timeout) {
  v1::AdoptCheckpointRequest request;
  request.set_checkpoint_id(checkpoint_id);
  request.set_files_checksum(files_checksum);
  return impl_
      ->Call("AdoptCheckpoint", WireMethod::kShardControl, &Stub::AdoptCheckpoint, request, timeout)
      .status();
}

}  // namespace dslide
