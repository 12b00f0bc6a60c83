// The coordinator of a cluster that runs elsewhere.

#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/console/global_options.h"
#include "client/cpp/coordinator_client.h"

namespace dslide::cli {

// cluster: HOST:PORT. Does not connect yet. Errors: those of the flags.
inline absl::StatusOr<std::unique_ptr<CoordinatorClient>> ConnectToCoordinator(
    const GlobalOptions& global, const std::string& cluster) {
  ClientOptions options;
  absl::StatusOr<absl::Duration> timeout = global.Timeout();
  if (!timeout.ok()) return timeout.status();
  options.timeout = *timeout;
  auto channel = NetworkChannels(global.Channels())(cluster);
  if (!channel.ok()) return channel.status();
  return std::make_unique<CoordinatorClient>(*channel, cluster, options, nullptr);
}

}  // namespace dslide::cli
