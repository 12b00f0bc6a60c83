// Calls of clients in the same process. Internal to the service.

#pragma once

#include "core/net/rpc/local_shard.h"
#include "services/shard/rpc/shard_call_service.h"

namespace dslide::shard {

// Limits, metrics, spans and errors are those of calls through gRPC. Whoever is in the process may
// read, as whoever has no certificate may where none are asked for.
//
// Thread safety: safe from any thread.
class LocalCalls final : public LocalShard {
 public:
  // `shared` outlives it, and all calls.
  explicit LocalCalls(ServiceContext& shared) : shared_(shared) {}

  void Read(const LocalCaller& caller, const v1::ReadRequest& request, v1::ReadResponse* response,
            Done done) override;
  void TopK(const LocalCaller& caller, const v1::TopKRequest& request, v1::TopKResponse* response,
            Done done) override;

 private:
  ServiceContext& shared_;
};

}  // namespace dslide::shard
