// A whole cluster inside one process: a coordinator and shards over gRPC's in-process channels.
//
// The same services and the same code path as separate processes; only the sockets are missing.
// This header is the one door between the client's command line and the services.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/net/metrics/metrics.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace dslide {

class LocalShard;

// The data directories of an embedded cluster's shards that hold no rows of `model`: a cluster that
// starts with them makes those rows afresh. Empty when nothing is missing.
// Errors: PermissionDenied and others of the system when that cannot be seen.
absl::StatusOr<std::vector<std::string>> ShardDirsWithoutRows(const std::string& data_dir,
                                                              int64_t shards,
                                                              const std::string& model);

struct EmbeddedClusterOptions {
  int64_t shards = 2;  // [1, 1024]
  // CPUs that one shard's commands may use; 0: the machine's CPUs dealt over the shards, at
  // least 1.
  int threads_per_shard = 0;
  // Holds coordinator/ and shard-0/, shard-1/, ...; made when absent. Checkpoints named "latest"
  // are loaded at the start and written at the stop. "" keeps nothing and has no checkpoints.
  std::string data_dir = {};
  // The data_dir of another cluster that has stopped in good order: its shards' rows are loaded
  // instead. Nothing there is written and no lock is taken, so that any number of clusters read it,
  // also where it is read-only. Works without data_dir, too; with it the jobs and the other
  // checkpoints of that cluster are taken over.
  std::string rows_from = {};
  // False: data_dir is thrown away afterwards, and nothing is written at the stop.
  bool write_latest = true;
  // Relative shares of the slots, one per shard; empty: equal.
  std::vector<double> capacity_weights = {};
  absl::Duration start_timeout = absl::Seconds(600);
};

// Thread safety: safe from any thread.
class EmbeddedCluster {
 public:
  // Blocks until every shard is registered.
  // Errors: InvalidArgument for options out of range; those of DataDirError() for a data directory
  // that cannot be loaded or belongs to another cluster; DeadlineExceeded.
  static absl::StatusOr<std::unique_ptr<EmbeddedCluster>> Start(
      const EmbeddedClusterOptions& options);

  // Stops: shards write their checkpoints first. All channels must be unused by then.
  ~EmbeddedCluster();

  // Address of the coordinator for OpenChannel().
  std::string coordinator_address() const;

  // A channel to the coordinator or to a shard by the address in the cluster map.
  // Errors: NotFound for an address that is not of this cluster; Unavailable while it stops.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const std::string& address);

  // The shard with that address in the cluster map; null: none has it. Until Stop().
  LocalShard* FindShard(const std::string& address);

  // The numbers of all services, for one admin page: the coordinator's, then the shards' with a
  // label shard="0", "1", .... Valid until Stop().
  std::vector<const Metrics*> metrics() const;

  // Seconds by stage of a step (core/system/stage_times.h), summed over the shards. Until Stop().
  std::map<std::string, double> StageSeconds() const;

  // Stops and says whether everything could be written. Repeated calls return the same.
  absl::Status Stop();

 private:
  struct State;
  explicit EmbeddedCluster(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
};

}  // namespace dslide
