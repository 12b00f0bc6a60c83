// The cluster a command works with: one that runs somewhere, or one inside this process.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/cluster_client.h"
#include "core/base/parallel.h"

namespace dslide::cli {

struct EmbeddedOptions {
  int64_t shards = 1;
  Parallelism parallelism = {};
  // Where the shards and the coordinator keep their data; "": a temporary directory that vanishes.
  std::string data_dir = {};
  // The data_dir of another one, whose rows are loaded; only read (EmbeddedClusterOptions). With
  // data_dir its jobs and other checkpoints are taken over, too; without it nothing is kept.
  std::string rows_from = {};
};

// Not thread-safe; its client is.
class ClusterSession {
 public:
  // Errors: those of AwaitHost() and ClusterClient::Connect().
  static absl::StatusOr<std::unique_ptr<ClusterSession>> Connect(const std::string& address,
                                                                 const ChannelOptions& channels,
                                                                 ClientOptions options);
  // Starts a coordinator and shards in this process, joined by in-process channels.
  // Errors: DataLoss for damaged data; those of ClusterClient::Connect().
  static absl::StatusOr<std::unique_ptr<ClusterSession>> StartEmbedded(
      const EmbeddedOptions& embedded, ClientOptions options);
  // Stops an embedded cluster, in good order.
  ~ClusterSession();

  ClusterClient& client() { return *client_; }
  // Another client of the same cluster; it ends before the session does.
  // Errors: those of ClusterClient::Connect().
  absl::StatusOr<std::unique_ptr<ClusterClient>> OpenClient(ClientOptions options) const {
    return connect_(std::move(options));
  }
  bool embedded() const { return embedded_ != nullptr; }

  // Seconds by stage of an embedded cluster's shards; empty for a cluster that runs elsewhere.
  std::map<std::string, double> StageSeconds() const;

  // Ends the client and stops an embedded cluster, whose shards then write their rows to data_dir.
  // Errors: what kept a shard from doing so.
  absl::Status Close();

 private:
  struct Embedded;
  ClusterSession();

  std::unique_ptr<Embedded> embedded_;
  std::unique_ptr<ClusterClient> client_;  // uses embedded_
  std::function<absl::StatusOr<std::unique_ptr<ClusterClient>>(ClientOptions)> connect_;
};

}  // namespace dslide::cli
