#include "services/coordinator/shard_admin_client.h"

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
#include "core/wire/control_codec.h"
#include "core/wire/reason_words.h"
#include "dslide/v1/shard.grpc.pb.h"
#include "services/common/status_mapping.h"

namespace dslide::coordinator {
namespace {

absl::Status Stopping() {
  return StatusWithReason(absl::StatusCode::kUnavailable, reason::kShuttingDown,
                          "the coordinator is shutting down");
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
                                                 absl::Duration timeout) override;
  absl::StatusOr<int64_t> LoadCheckpoint(const std::string& address, const std::string& model,
                                         const std::string& checkpoint,
                                         absl::Duration timeout) override;
  void Stop() override;

 private:
  using Stub = v1::ShardService::Stub;

  absl::StatusOr<Stub*> StubOf(const std::string& address);
  // Runs `invoke(stub, context)` with a deadline, cancellable by Stop().
  template <typename Invoke>
  absl::Status Call(const std::string& address, absl::Duration timeout, const Invoke& invoke);

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
  ASSIGN_OR_RETURN(Stub* const stub, StubOf(address));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(timeout));
  {
    const absl::MutexLock lock(&mu_);
    if (stopped_) return Stopping();
    running_.insert(&context);
  }
  const absl::Status status = FromGrpcStatus(invoke(*stub, &context));
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

absl::StatusOr<CheckpointSize> ShardAdminClient::WriteCheckpoint(const std::string& address,
                                                                 const std::string& model,
                                                                 const std::string& checkpoint,
                                                                 absl::Duration timeout) {
  v1::WriteCheckpointRequest request;
  request.set_model(model);
  request.set_checkpoint(checkpoint);
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

void ShardAdminClient::Stop() {
  const absl::MutexLock lock(&mu_);
  stopped_ = true;
  for (grpc::ClientContext* context : running_) context->TryCancel();
}

}  // namespace

std::unique_ptr<ShardAdmin> MakeShardAdminClient(ServiceChannelFactory channels) {
  return std::make_unique<ShardAdminClient>(std::move(channels));
}

}  // namespace dslide::coordinator
