// One unary call of the shard's service. Internal to the service.

#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include "absl/status/status.h"
#include "services/shard/rpc/shard_call_service.h"
#include "services/shard/rpc/shard_service.h"

namespace dslide::shard {

// Owns itself: deleted when the call is over.
class ShardServiceImpl::Unary final : public grpc::ServerUnaryReactor {
 public:
  Unary(ServiceContext& shared, const char* method, grpc::CallbackServerContext* context)
      : context_(context), record_(shared, method, context) {}

  void OnDone() override { delete this; }

  const grpc::CallbackServerContext* context() const { return context_; }
  CallRecord& record() { return record_; }
  void End(const absl::Status& status) { Finish(record_.Finish(status)); }

 private:
  grpc::CallbackServerContext* const context_;
  CallRecord record_;
};

template <typename Request>
ShardServiceImpl::Unary* ShardServiceImpl::Start(const char* method,
                                                 grpc::CallbackServerContext* context,
                                                 const Request& request) {
  auto* const call = new Unary(shared_, method, context);
  call->record().Received(request.ByteSizeLong());
  return call;
}

}  // namespace dslide::shard
