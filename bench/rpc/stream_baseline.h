// The least that gRPC itself costs: streams of 1 MiB messages by reference, without looking at
// them.
//
// What gather and scatter take beyond this is ours. Same channel arguments, one connection, one
// stream at a time, as theirs.

#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_builder.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"

namespace dslide::bench {

inline constexpr int64_t kBaselineChunkBytes = 1 << 20;

// Serves every method name: a request says how many bytes it wants, or how many follow, and whether
// these are wanted back.
class StreamBaselineService final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;
};

// The transport arguments of the shard's server.
void SetBaselineServerArguments(grpc::ServerBuilder& builder);

// Streams `bytes` from the server to this client, or the other way, and waits for the end.
absl::Status StreamDown(const std::shared_ptr<grpc::Channel>& channel, int64_t bytes);
absl::Status StreamUp(const std::shared_ptr<grpc::Channel>& channel, int64_t bytes);
// Sends `bytes` and gets them back, message by message: each is moved twice.
absl::Status StreamEcho(const std::shared_ptr<grpc::Channel>& channel, int64_t bytes);

}  // namespace dslide::bench
