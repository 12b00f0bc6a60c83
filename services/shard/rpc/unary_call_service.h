// One unary call of the shard's service. Internal to the service.

#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/protocol/commands.h"
#include "dslide/v1/shard.pb.h"
#include "services/shard/rpc/shard_call_service.h"
#include "services/shard/rpc/shard_service.h"

namespace dslide::shard {

// A call, whatever brings it. Owns itself: gone some time after its end.
class ShardCall {
 public:
  ShardCall(ServiceContext& shared, const char* method, const CallMetadata& metadata)
      : shared_(shared), record_(shared, method, metadata) {}
  virtual ~ShardCall() = default;
  ShardCall(const ShardCall&) = delete;
  ShardCall& operator=(const ShardCall&) = delete;

  ServiceContext& shared() { return shared_; }
  CallRecord& record() { return record_; }
  void End(const absl::Status& status) { Deliver(record_.Finish(status)); }

  // How long its caller waits from now on.
  virtual absl::Duration patience() const = 0;
  // As Sequencer::Request::admit and run_here.
  virtual std::function<absl::Status()> Admit(const Command& command) = 0;
  virtual bool run_here() const = 0;

 private:
  virtual void Deliver(const grpc::Status& status) = 0;

  ServiceContext& shared_;
  CallRecord record_;
};

// A call through gRPC.
class ShardServiceImpl::Unary final : public grpc::ServerUnaryReactor, public ShardCall {
 public:
  Unary(ServiceContext& shared, const char* method, grpc::CallbackServerContext* context)
      : ShardCall(shared, method, context->client_metadata()), context_(context) {}

  void OnDone() override { delete this; }

  const grpc::CallbackServerContext* context() const { return context_; }
  absl::Duration patience() const override;
  std::function<absl::Status()> Admit(const Command& command) override;
  bool run_here() const override { return false; }

 private:
  void Deliver(const grpc::Status& status) override { Finish(status); }

  grpc::CallbackServerContext* const context_;
};

// How a call's command is queued.
struct QueuedCommand {
  int64_t bytes = 0;
  bool control = false;
  wire::LoggedCommand logged = {};  // of commands that may change the state
};

// Queues the command, or ends the call when it could not be decoded. `encode` fills the response
// from the answer and returns its size.
void SubmitCommand(ShardCall* call, absl::StatusOr<Command> command, QueuedCommand how,
                   std::function<size_t(const Answer&)> encode);

// Those of calls that come by two ways.
void SubmitRead(ShardCall* call, const v1::ReadRequest& request, v1::ReadResponse* response);
void SubmitTopK(ShardCall* call, const v1::TopKRequest& request, v1::TopKResponse* response);

template <typename Request>
ShardServiceImpl::Unary* ShardServiceImpl::Start(const char* method,
                                                 grpc::CallbackServerContext* context,
                                                 const Request& request) {
  auto* const call = new Unary(shared_, method, context);
  call->record().Received(request.ByteSizeLong());
  return call;
}

}  // namespace dslide::shard
