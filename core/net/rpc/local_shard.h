// A shard of the same process, asked by calling its handlers: no transport and no hand-over between
// threads. What gRPC would carry is the same, so that answers and errors are.

#pragma once

#include <grpcpp/support/status.h>
#include <grpcpp/support/string_ref.h>

#include <functional>
#include <map>

#include "absl/time/time.h"
#include "dslide/v1/shard.pb.h"

namespace dslide {

// What a handler knows of its caller.
struct LocalCaller {
  // As a call of gRPC brings it: request id, trace.
  std::multimap<grpc::string_ref, grpc::string_ref> metadata = {};
  // How long the caller waits.
  absl::Duration patience = absl::InfiniteDuration();
  // The call may run on the caller's own thread, if the shard does nothing else: for small work, or
  // where the caller would only wait.
  bool run_here = false;
};

// The calls that change nothing and ask for little work.
//
// Thread safety: safe from any thread.
class LocalShard {
 public:
  using Done = std::function<void(const grpc::Status&)>;

  virtual ~LocalShard() = default;

  // `caller`, `request` and `response` stay until `done` is called, once, here or on a thread of
  // the shard. It must not block.
  virtual void Read(const LocalCaller& caller, const v1::ReadRequest& request,
                    v1::ReadResponse* response, Done done) = 0;
  virtual void TopK(const LocalCaller& caller, const v1::TopKRequest& request,
                    v1::TopKResponse* response, Done done) = 0;
};

}  // namespace dslide
