// A whole cluster as one client: tables over all shards, models, checkpoints and step streams.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/cpp/channel_factory.h"
#include "client/cpp/client_options.h"
#include "client/cpp/coordinator_client.h"
#include "client/cpp/shard_client.h"
#include "core/partition/slot_map.h"
#include "core/protocol/commands.h"

namespace dslide {

class ShardStream;
class StepChannel;
class WireCounters;

// What the shards say about a model, put together.
struct ModelDescription {
  ModelSpec spec;
  std::vector<std::vector<TableStateReply>> tables_by_shard;  // [shard][table]

  // Sum over shards and tables: equal rows give an equal number on any number of shards. 0 unless
  // digests were asked for.
  uint64_t digest() const;
};

// A scatter over all shards. Each shard applies its part whole or not at all.
struct ClusterScatterResult {
  absl::Status status;  // OK exactly when every part was applied; else the first error by shard
  // kApplied: everywhere. kNotApplied: nowhere. kUnknown: anything else; see `by_shard`.
  Outcome outcome = Outcome::kUnknown;
  std::vector<ScatterResult> by_shard;  // parts without rows count as applied
};

// Thread safety: safe from any thread. Callbacks run on threads of gRPC or of this client and must
// not block. Row ids are global; the client slices them by owner. Every call ends within
// ClientOptions::timeout, or a small multiple of it where a call needs several rounds.
class ClusterClient {
 public:
  // Asks the coordinator for the map and makes a client for each shard.
  // Errors: Unavailable when the coordinator does not answer or lacks shards, naming its address;
  // those of `channels`.
  static absl::StatusOr<std::unique_ptr<ClusterClient>> Connect(const std::string& coordinator,
                                                                const ChannelFactory& channels,
                                                                ClientOptions options);
  ~ClusterClient();
  ClusterClient(const ClusterClient&) = delete;
  ClusterClient& operator=(const ClusterClient&) = delete;

  const ClientOptions& options() const;
  const ClusterMap& map() const;
  int64_t num_shards() const;
  CoordinatorClient& coordinator();
  ShardClient& shard(ShardId shard);
  const WireCounters& counters() const;

  // Slot owners of a table with so many slots. Asks the coordinator the first time. Errors: those
  // of the call; FailedPrecondition when the shards are others by now.
  absl::StatusOr<SlotMap> Slots(int64_t num_slots);

  // Models. CreateModel is true when it was created, false when an equal one was there.
  absl::StatusOr<bool> CreateModel(const ModelSpec& spec);
  absl::StatusOr<ModelSpec> FindModel(const std::string& model);  // NotFound lists the known ones
  absl::StatusOr<ModelDescription> DescribeModel(const std::string& model, bool with_digests);
  absl::Status DropModel(const std::string& model);

  // Rows in the order of `wanted`, which may repeat. Answers of different shards are not of one
  // instant. `averaged`: as predictions read them, where the table keeps averages.
  absl::StatusOr<RowBlock> Gather(const std::string& model, const std::string& table,
                                  absl::Span<const RowId> wanted, bool averaged = false);
  // Best k rows of each query over all shards. query.k in [1, 1024]. query.candidates are dealt to
  // the shards that hold them.
  absl::StatusOr<TopKReply> TopK(const TopKCommand& query);
  // Rows in any order; equal ids are added up, except by kAssign, which refuses them. A lost answer
  // is asked for again with the same sequence number, so that nothing is applied twice.
  ClusterScatterResult Scatter(const std::string& model, const std::string& table, ScatterMode mode,
                               const RowBlock& rows);

  // The same without waiting. Scatters of one client are applied in the order of these calls.
  template <typename T>
  using Done = std::function<void(absl::StatusOr<T>)>;
  void GatherAsync(const std::string& model, const std::string& table,
                   absl::Span<const RowId> wanted, Done<RowBlock> done, bool averaged = false);
  void TopKAsync(const TopKCommand& query, Done<TopKReply> done);
  void ScatterAsync(const std::string& model, const std::string& table, ScatterMode mode,
                    const RowBlock& rows, std::function<void(ClusterScatterResult)> done);

  // Opens a step stream (shard_stream.h) to every shard, by ordinal, for the client `client` on
  // `spec`: for those who change its rows.
  absl::StatusOr<std::vector<std::unique_ptr<ShardStream>>> OpenStreams(const ModelSpec& spec,
                                                                        const ClientId& client);

  // Channels to every shard, by ordinal, for operations on `spec` that change nothing
  // (read_channel.h). They end before this client does.
  std::vector<std::unique_ptr<StepChannel>> OpenReads(const ModelSpec& spec);

 private:
  struct Impl;
  explicit ClusterClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dslide
