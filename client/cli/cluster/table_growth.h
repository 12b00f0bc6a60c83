// Tables of a cluster's models that get the rows that new data needs.

#pragma once

#include "absl/status/status.h"
#include "client/cpp/cluster_client.h"
#include "client/trainer/progress.h"
#include "core/spec/model_spec.h"

namespace dslide::cli {

// Registers the model. With `grow`, tables of the one of its name that have fewer rows are given
// them first, of which `progress` is told. Errors: those of the coordinator.
absl::Status MakeModel(ClusterClient& cluster, const ModelSpec& spec, bool grow,
                       ProgressSink& progress);

}  // namespace dslide::cli
