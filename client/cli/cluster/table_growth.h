// Tables of a cluster's models that get the rows that new data needs.

#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/console/global_options.h"
#include "client/cpp/cluster_client.h"
#include "client/trainer/progress.h"
#include "core/spec/model_spec.h"

namespace dslide::cli {

// The models of a cluster, cluster: HOST:PORT; none for "". Errors: those of
// ConnectToCoordinator() and ListModels().
absl::StatusOr<std::vector<ModelSpec>> KnownModels(const GlobalOptions& global,
                                                   const std::string& cluster);

// Registers the model. With `grow`, tables of the one of its name that have fewer rows are given
// them first, of which `progress` is told. Errors: those of the coordinator.
absl::Status MakeModel(ClusterClient& cluster, const ModelSpec& spec, bool grow,
                       ProgressSink& progress);

}  // namespace dslide::cli
