// One shard's unary and bulk calls as C++ calls. The hot path is shard_stream.h.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/cpp/channel_factory.h"
#include "client/cpp/client_options.h"
#include "core/protocol/commands.h"

namespace dslide {

class LocalShard;
class WireCounters;

namespace wire {
struct GatherTarget;
}  // namespace wire

// What to do about a shard that does not answer.
inline constexpr char kSilentShardRemedy[] =
    "see whether the shard runs (dslide status, its log), start it again with its data directory, "
    "or raise --timeout";

struct ShardServerInfo {
  std::string version;
  std::string revision;
  ShardId shard = ShardId(-1);
  uint64_t generation = 0;
  uint64_t topology_version = 0;
  int64_t max_message_bytes = 0;
  std::vector<std::string> capabilities;
};

// What a shard says that it can do with steps.
struct StepCapabilities {
  bool packed_steps = false;     // it reads packed requests
  bool explicit_rows = false;    // it takes rows that the client names
  bool averaged_rows = false;    // it keeps averages of rows and reads them
  bool label_weights = false;    // it weighs the targets of labels
  bool sparse_matrices = false;  // it reads matrices without their zeros
};

// The answer to Hello.
struct ShardGreeting {
  HelloReply reply;
  StepCapabilities capabilities;
};

// What became of a mutation.
struct ScatterResult {
  absl::Status status;  // OK exactly when outcome is kApplied
  Outcome outcome = Outcome::kUnknown;
  int64_t applied_steps = 0;  // of the table on the shard, when applied
};

// Every call has a deadline: ClientOptions::timeout unless `timeout` is given. Calls that are safe
// to repeat are repeated after UNAVAILABLE until then; asynchronous ones and CloseClient are tried
// once. Errors carry code, message (naming the shard) and reason word.
//
// Thread safety: safe from any thread. Callbacks run on gRPC's threads and must not block.
class ShardClient {
 public:
  // `counters` must outlive the client. Does not connect yet.
  ShardClient(std::shared_ptr<grpc::Channel> channel, ShardId shard, std::string address,
              ClientOptions options, WireCounters* counters);
  ~ShardClient();
  ShardClient(const ShardClient&) = delete;
  ShardClient& operator=(const ShardClient&) = delete;

  ShardId shard() const;
  const std::string& address() const;
  const std::shared_ptr<grpc::Channel>& channel() const;
  // "shard 2 at 10.0.0.7:7010", as errors name it.
  const std::string& peer() const;

  absl::StatusOr<ShardServerInfo> GetServerInfo();
  absl::StatusOr<ShardGreeting> Hello(const HelloCommand& command, absl::Duration timeout);
  // One attempt, of at most 5 s: a shard that is gone has nothing to forget.
  absl::Status CloseClient(const CloseClientCommand& command);

  absl::StatusOr<GatherReply> Gather(const GatherCommand& command);
  // As Gather by id, into the caller's memory: no other copy, and memory that is used again need
  // not be faulted in again. On an error the rows there are undefined.
  //   values : [command.rows.size(), dim]     biases : [command.rows.size()], or empty: not wanted
  // Errors: also InvalidArgument when `values` or `biases` have another size.
  absl::Status GatherInto(const GatherCommand& command, int64_t dim, absl::Span<float> values,
                          absl::Span<float> biases);
  absl::StatusOr<TopKReply> TopK(const TopKCommand& command);
  // One attempt, at most once: see ClusterClient::Scatter for the one that finds out what happened.
  // The rows are sent from where they are: the command stays as it is until nobody shares it, which
  // may be later than the return when the call was cut short.
  ScatterResult Scatter(std::shared_ptr<const ScatterCommand> command, absl::Duration timeout);

  absl::StatusOr<bool> CreateModel(const CreateModelCommand& command);
  absl::StatusOr<DescribeModelReply> DescribeModel(const std::string& model, bool with_digests);
  // Rows as they are stored, some of those that are asked for: see ReadRowsReply::next.
  absl::StatusOr<ReadRowsReply> ReadRows(const ReadRowsCommand& command);
  absl::Status DropModel(const std::string& model);
  absl::StatusOr<int64_t> WriteCheckpoint(const std::string& model, const std::string& checkpoint,
                                          absl::Duration timeout = absl::Minutes(10));
  absl::StatusOr<int64_t> LoadCheckpoint(const std::string& model, const std::string& checkpoint,
                                         absl::Duration timeout = absl::Minutes(10));

  // --- The shard's part of a cluster checkpoint, to copy it and to bring it back.
  // A piece of a file from `offset` on; "" at its end.
  absl::StatusOr<std::string> ReadCheckpointFile(uint64_t checkpoint_id, const std::string& path,
                                                 int64_t offset);
  absl::Status WriteCheckpointFile(uint64_t checkpoint_id, const std::string& path, int64_t offset,
                                   std::string piece);
  // OK when the shard has the part with that list of files, or has it now from what was written.
  absl::Status AdoptCheckpoint(uint64_t checkpoint_id, uint32_t files_checksum,
                               absl::Duration timeout = absl::Hours(1));

  template <typename T>
  using Done = std::function<void(absl::StatusOr<T>)>;
  // Into the target, which must stay until `done` is called; the reply has no rows.
  void GatherAsync(const GatherCommand& command, const wire::GatherTarget& target,
                   Done<GatherReply> done);
  // A few queries of little work are answered on this thread, before the return, by a shard of this
  // process that has nothing else to do.
  void ReadAsync(const ReadCommand& command, ActivationType activations, Done<ReplyBody> done);
  // The same, but that a search, which reads megabytes, is answered here on the last turn only:
  // other shards would begin theirs after it.
  enum class Turn { kOthersFollow, kLast };
  void TopKAsync(const TopKCommand& command, Turn turn, Done<TopKReply> done);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dslide
