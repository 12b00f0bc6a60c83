// The coordinator of a cluster that runs elsewhere.

#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/console/global_options.h"
#include "client/cpp/coordinator_client.h"

namespace dslide::cli {

// Whether the host of HOST:PORT has an address. A name may be new, as that of a container that was
// just started: it is asked for again for a few seconds, and no longer, for a wrong one never gets
// right. Errors: InvalidArgument when it is unknown or malformed, Unavailable when nobody can say.
absl::Status AwaitHost(const std::string& address);

// cluster: HOST:PORT. Does not connect yet. Errors: those of the flags and of AwaitHost().
absl::StatusOr<std::unique_ptr<CoordinatorClient>> ConnectToCoordinator(const GlobalOptions& global,
                                                                        const std::string& cluster);

}  // namespace dslide::cli
