// One Gather or Scatter call to a shard, as raw bytes: ordinary messages of shard.proto, whose rows
// gRPC reads from and writes to the client's own memory.

#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/wire_counters.h"
#include "core/protocol/commands.h"
#include "core/wire/bulk/bulk_codec.h"
#include "core/wire/row_codec.h"
#include "dslide/v1/shard.pb.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace dslide {

// To whom a call goes. `counters` outlives the call.
struct BulkPeer {
  std::shared_ptr<grpc::Channel> channel;  // shared with the client
  std::string name;                        // for errors
  WireCounters* counters;
  std::string request_id;  // as ClientOptions::request_id
};

// Starts a gather; `done` is called once, on a thread of gRPC. With a target the rows go there (it
// stays until then), else into the reply.
void StartGather(const BulkPeer& peer, v1::GatherRequest request, const wire::GatherTarget* target,
                 absl::Time deadline, std::function<void(absl::StatusOr<GatherReply>)> done);

// Sends a scatter and waits for the answer. The command may be shared with the transport for
// longer.
absl::StatusOr<v1::ScatterResponse> RunScatter(const BulkPeer& peer,
                                               std::shared_ptr<const ScatterCommand> command,
                                               absl::Time deadline);

}  // namespace dslide
