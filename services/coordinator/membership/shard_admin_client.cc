#include "services/coordinator/membership/shard_admin_client.h"

#include <grpcpp/client_context.h>

#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/net/trace/trace_context.h"
#include "core/protocol/reason_words.h"
#include "core/wire/client_steps.h"
#include "core/wire/control_codec.h"
#include "core/wire/durations.h"
#include "core/wire/envelope_codec.h"
#include "dslide/v1/shard.grpc.pb.h"
#include "services/common/status_mapping.h"

namespace dslide::coordinator {
namespace {

absl::Status Stopping() {
  return StatusWithReason(absl::StatusCode::kUnavailable, reason::kShuttingDown,
                          "the coordinator is shutting down");
}

PartProgress::State DecodeState(v1::CheckpointState state) {
  switch (state) {
    case v1::CHECKPOINT_STATE_WRITING:
      return PartProgress::State::kWriting;
    case v1::CHECKPOINT_STATE_PREPARED:
      return PartProgress::State::kPrepared;
    case v1::CHECKPOINT_STATE_FAILED:
      return PartProgress::State::kFailed;
    default:
      return PartProgress::State::kUnknown;
  }
}

v1::FreezeStepsRequest FreezeRequest(uint64_t checkpoint_id, uint64_t generation,
                                     absl::Duration limit) {
  v1::FreezeStepsRequest request;
  request.set_checkpoint_id(checkpoint_id);
  request.set_generation(generation);
  wire::EncodeDuration(limit, request.mutable_limit());
  return request;
}

class ShardAdminClient final : public ShardAdmin {
 public:
  explicit ShardAdminClient(ServiceChannelFactory channels) : channels_(std::move(channels)) {}

  absl::StatusOr<bool> CreateModel(const std::string& address, const CreateModelCommand& command,
                                   absl::Duration timeout) override;
  absl::Status DropModel(const std::string& address, const std::string& model,
                         absl::Duration timeout) override;
  absl::StatusOr<CheckpointSize> WriteCheckpoint(const std::string& address,
                                                 const std::string& model,
                                                 const std::string& checkpoint,
                                                 const std::vector<std::string>& best_kept,
                                                 absl::Duration timeout) override;
  absl::StatusOr<int64_t> LoadCheckpoint(const std::string& address, const std::string& model,
                                         const std::string& checkpoint,
                                         absl::Duration timeout) override;
  absl::StatusOr<absl::Duration> EstimateFreezeDelay(const std::string& address,
                                                     uint64_t generation,
                                                     absl::Duration timeout) override;
  absl::StatusOr<std::vector<ClientStep>> FreezeSteps(const std::string& address,
                                                      uint64_t checkpoint_id, uint64_t generation,
                                                      absl::Duration limit,
                                                      absl::Duration timeout) override;
  absl::StatusOr<std::vector<ClientStep>> AdmitSteps(const std::string& address,
                                                     uint64_t checkpoint_id,
                                                     const std::vector<ClientStep>& up_to,
                                                     const std::vector<ClientId>& evict,
                                                     absl::Duration timeout) override;
  absl::StatusOr<absl::Duration> CutCheckpoint(const std::string& address, uint64_t checkpoint_id,
                                               const PartBase& base,
                                               absl::Duration timeout) override;
  absl::Status AbortCheckpoint(const std::string& address, uint64_t checkpoint_id,
                               absl::Duration timeout) override;
  absl::StatusOr<PartProgress> CheckpointProgress(const std::string& address,
                                                  uint64_t checkpoint_id,
                                                  absl::Duration timeout) override;
  absl::Status VerifyCheckpoint(const std::string& address, uint64_t checkpoint_id,
                                uint32_t files_checksum, absl::Duration timeout,
                                WorkProgress& progress) override;
  absl::Status PrepareRollback(const std::string& address, uint64_t checkpoint_id,
                               uint32_t files_checksum, absl::Duration timeout,
                               WorkProgress& progress) override;
  absl::Status RetainCheckpoints(const std::string& address,
                                 const std::vector<uint64_t>& checkpoint_ids,
                                 absl::Duration timeout) override;
  absl::StatusOr<int64_t> Rollback(const std::string& address, uint64_t checkpoint_id,
                                   uint32_t files_checksum, absl::Duration timeout) override;
  void Stop() override;

 private:
  using Stub = v1::ShardService::Stub;

  absl::StatusOr<v1::FreezeStepsResponse> CallFreezeSteps(const std::string& address,
                                                          const v1::FreezeStepsRequest& request,
                                                          absl::Duration timeout);
  absl::StatusOr<Stub*> StubOf(const std::string& address);
  // Runs `invoke(stub, context)` with a deadline; Stop() cancels it.
  template <typename Invoke>
  absl::Status Call(const std::string& address, absl::Duration timeout, const Invoke& invoke);
  // VerifyCheckpoint and PrepareRollback.
  template <typename Request, typename Response>
  absl::Status CheckPart(grpc::Status (Stub::*call)(grpc::ClientContext*, const Request&,
                                                    Response*),
                         const std::string& address, uint64_t checkpoint_id,
                         uint32_t files_checksum, absl::Duration timeout, WorkProgress& progress);

  const ServiceChannelFactory channels_;
  absl::Mutex mu_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::string, std::unique_ptr<Stub>> stubs_ ABSL_GUARDED_BY(mu_);
  std::set<grpc::ClientContext*> running_ ABSL_GUARDED_BY(mu_);
};

absl::StatusOr<ShardAdminClient::Stub*> ShardAdminClient::StubOf(const std::string& address) {
  {
    const absl::MutexLock lock(&mu_);
    if (const auto found = stubs_.find(address); found != stubs_.end()) return found->second.get();
  }
  ASSIGN_OR_RETURN(const auto channel, channels_(address));  // may ask the resolver: not under mu_
  const absl::MutexLock lock(&mu_);
  auto& stub = stubs_[address];
  if (stub == nullptr) stub = v1::ShardService::NewStub(channel);
  return stub.get();
}

template <typename Invoke>
absl::Status ShardAdminClient::Call(const std::string& address, absl::Duration timeout,
                                    const Invoke& invoke) {
  const absl::StatusOr<Stub*> stub = StubOf(address);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(timeout));
  const TraceContext& trace = CurrentTrace();
  if (trace.valid()) context.AddMetadata(kTraceparentKey, trace.ToTraceparent());
  {
    const absl::MutexLock lock(&mu_);
    if (stopped_) return Stopping();
    RETURN_IF_ERROR(stub.status());
    running_.insert(&context);
  }
  const absl::Status status = FromGrpcStatus(invoke(**stub, &context));
  const absl::MutexLock lock(&mu_);
  running_.erase(&context);
  return stopped_ && !status.ok() ? Stopping() : status;
}

absl::StatusOr<bool> ShardAdminClient::CreateModel(const std::string& address,
                                                   const CreateModelCommand& command,
                                                   absl::Duration timeout) {
  v1::CreateModelRequest request;
  wire::EncodeCreateModel(command, &request);
  v1::CreateModelResponse response;
  RETURN_IF_ERROR(Call(address, timeout, [&](Stub& stub, grpc::ClientContext* context) {
    return stub.CreateModel(context, request, &response);
  }));
  return response.created();
}

absl::Status ShardAdminClient::DropModel(const std::string& address, const std::string& model,
                                         absl::Duration timeout) {
  v1::DropModelRequest request;
  request.set_model(model);
  v1::DropModelResponse response;
  return Call(address, timeout, [&](Stub& stub, grpc::ClientContext* context) {
    return stub.DropModel(context, request, &response);
  });
}

absl::StatusOr<CheckpointSize> ShardAdminClient::WriteCheckpoint(
    const std::string& address, const std::string& model, const std::string& checkpoint,
    const std::vector<std::string>& best_kept, absl::Duration timeout) {
  v1::WriteCheckpointRequest request;
  request.set_model(model);
  request.set_checkpoint(checkpoint);
  request.mutable_best_kept()->Assign(best_kept.begin(), best_kept.end());
  v1::WriteCheckpointResponse response;
  RETURN_IF_ERROR(Call(address, timeout, [&](Stub& stub, grpc::ClientContext* context) {
    return stub.WriteCheckpoint(context, request, &response);
  }));
  return CheckpointSize{response.rows(), response.bytes()};
}

absl::StatusOr<int64_t> ShardAdminClient::LoadCheckpoint(const std::string& address,
                                                         const std::string& model,
                                                         const std::string& checkpoint,
                                                         absl::Duration timeout) {
  v1::LoadCheckpointRequest request;
  request.set_model(model);
  request.set_checkpoint(checkpoint);
  v1::LoadCheckpointResponse response;
  RETURN_IF_ERROR(Call(address, timeout, [&](Stub& stub, grpc::ClientContext* context) {
    return stub.LoadCheckpoint(context, request, &response);
  }));
  return response.rows();
}

absl::StatusOr<v1::FreezeStepsResponse> ShardAdminClient::CallFreezeSteps(
    const std::string& address, const v1::FreezeStepsRequest& request, absl::Duration timeout) {
  v1::FreezeStepsResponse response;
  RETURN_IF_ERROR(Call(address, timeout, [&](Stub& stub, grpc::ClientContext* context) {
    return stub.FreezeSteps(context, request, &response);
  }));
  return response;
}

absl::StatusOr<absl::Duration> ShardAdminClient::EstimateFreezeDelay(const std::string& address,
                                                                     uint64_t generation,
                                                                     absl::Duration timeout) {
  v1::EstimateFreezeDelayRequest request;
  request.set_generation(generation);
  v1::EstimateFreezeDelayResponse response;
  RETURN_IF_ERROR(Call(address, timeout, [&](Stub& stub, grpc::ClientContext* context) {
    return stub.EstimateFreezeDelay(context, request, &response);
  }));
  return wire::DecodeDuration(response.wait_estimate());
}

absl::StatusOr<std::vector<ClientStep>> ShardAdminClient::FreezeSteps(const std::string& address,
                                                                      uint64_t checkpoint_id,
                                                                      uint64_t generation,
                                                                      absl::Duration limit,
                                                                      absl::Duration timeout) {
  ASSIGN_OR_RETURN(
      const v1::FreezeStepsResponse response,
      CallFreezeSteps(address, FreezeRequest(checkpoint_id, generation, limit), timeout));
  return wire::DecodeClientSteps(response.changed());
}

absl::StatusOr<std::vector<ClientStep>> ShardAdminClient::AdmitSteps(
    const std::string& address, uint64_t checkpoint_id, const std::vector<ClientStep>& up_to,
    const std::vector<ClientId>& evict, absl::Duration timeout) {
  v1::AdmitStepsRequest request;
  request.set_checkpoint_id(checkpoint_id);
  wire::EncodeClientSteps(up_to, request.mutable_up_to());
  for (const ClientId& client : evict) request.add_evict(wire::EncodeClientId(client));
  v1::AdmitStepsResponse response;
  RETURN_IF_ERROR(Call(address, timeout, [&](Stub& stub, grpc::ClientContext* context) {
    return stub.AdmitSteps(context, request, &response);
  }));
  return wire::DecodeClientSteps(response.incomplete());
}

absl::StatusOr<absl::Duration> ShardAdminClient::CutCheckpoint(const std::string& address,
                                                               uint64_t checkpoint_id,
                                                               const PartBase& base,
                                                               absl::Duration timeout) {
  v1::CutCheckpointRequest request;
  request.set_checkpoint_id(checkpoint_id);
  request.set_base_checkpoint_id(base.checkpoint_id);
  request.set_base_files_checksum(base.files_checksum);
  v1::CutCheckpointResponse response;
  RETURN_IF_ERROR(Call(address, timeout, [&](Stub& stub, grpc::ClientContext* context) {
    return stub.CutCheckpoint(context, request, &response);
  }));
  return wire::DecodeDuration(response.stall());
}

absl::Status ShardAdminClient::AbortCheckpoint(const std::string& address, uint64_t checkpoint_id,
                                               absl::Duration timeout) {
  v1::AbortCheckpointRequest request;
  request.set_checkpoint_id(checkpoint_id);
  v1::AbortCheckpointResponse response;
  return Call(address, timeout, [&](Stub& stub, grpc::ClientContext* context) {
    return stub.AbortCheckpoint(context, request, &response);
  });
}

absl::StatusOr<PartProgress> ShardAdminClient::CheckpointProgress(const std::string& address,
                                                                  uint64_t checkpoint_id,
                                                                  absl::Duration timeout) {
  v1::GetCheckpointProgressRequest request;
  request.set_checkpoint_id(checkpoint_id);
  v1::GetCheckpointProgressResponse response;
  RETURN_IF_ERROR(Call(address, timeout, [&](Stub& stub, grpc::ClientContext* context) {
    return stub.GetCheckpointProgress(context, request, &response);
  }));
  return PartProgress{.state = DecodeState(response.state()),
                      .rows = response.rows(),
                      .files = response.files(),
                      .bytes = response.bytes(),
                      .files_checksum = response.files_checksum(),
                      .base_checkpoint_id = response.base_checkpoint_id(),
                      .written_bytes = response.written_bytes(),
                      .error = response.error()};
}

template <typename Request, typename Response>
absl::Status ShardAdminClient::CheckPart(grpc::Status (Stub::*call)(grpc::ClientContext*,
                                                                    const Request&, Response*),
                                         const std::string& address, uint64_t checkpoint_id,
                                         uint32_t files_checksum, absl::Duration timeout,
                                         WorkProgress& progress) {
  Request request;
  request.set_checkpoint_id(checkpoint_id);
  request.set_files_checksum(files_checksum);
  Response response;
  return Call(address, timeout, [&](Stub& stub, grpc::ClientContext* context) {
    const WorkProgress::Interrupt interrupt(progress, [context] { context->TryCancel(); });
    return (stub.*call)(context, request, &response);
  });
}

absl::Status ShardAdminClient::VerifyCheckpoint(const std::string& address, uint64_t checkpoint_id,
                                                uint32_t files_checksum, absl::Duration timeout,
                                                WorkProgress& progress) {
  return CheckPart(&Stub::VerifyCheckpoint, address, checkpoint_id, files_checksum, timeout,
                   progress);
}

absl::Status ShardAdminClient::PrepareRollback(const std::string& address, uint64_t checkpoint_id,
                                               uint32_t files_checksum, absl::Duration timeout,
                                               WorkProgress& progress) {
  return CheckPart(&Stub::PrepareRollback, address, checkpoint_id, files_checksum, timeout,
                   progress);
}

absl::Status ShardAdminClient::RetainCheckpoints(const std::string& address,
                                                 const std::vector<uint64_t>& checkpoint_ids,
                                                 absl::Duration timeout) {
  v1::RetainCheckpointsRequest request;
  for (const uint64_t checkpoint_id : checkpoint_ids) request.add_checkpoint_ids(checkpoint_id);
  v1::RetainCheckpointsResponse response;
  return Call(address, timeout, [&](Stub& stub, grpc::ClientContext* context) {
    return stub.RetainCheckpoints(context, request, &response);
  });
}

absl::StatusOr<int64_t> ShardAdminClient::Rollback(const std::string& address,
                                                   uint64_t checkpoint_id, uint32_t files_checksum,
                                                   absl::Duration timeout) {
  v1::RollbackRequest request;
  request.set_checkpoint_id(checkpoint_id);
  request.set_files_checksum(files_checksum);
  v1::RollbackResponse response;
  RETURN_IF_ERROR(Call(address, timeout, [&](Stub& stub, grpc::ClientContext* context) {
    return stub.Rollback(context, request, &response);
  }));
  return response.rows();
}

void ShardAdminClient::Stop() {
  const absl::MutexLock lock(&mu_);
  stopped_ = true;
  for (grpc::ClientContext* context : running_) context->TryCancel();
  const auto ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return running_.empty(); };
  mu_.Await(absl::Condition(&ended));
}

}  // namespace

std::unique_ptr<ShardAdmin> MakeShardAdminClient(ServiceChannelFactory channels) {
  return std::make_unique<ShardAdminClient>(std::move(channels));
}

}  // namespace dslide::coordinator
