// The coordinator's page for people.

#pragma once

#include <vector>

#include "core/net/http/status_page.h"
#include "core/spec/model_spec.h"
#include "services/coordinator/control/coordinator.h"
#include "services/coordinator/operations/operation.h"

namespace dslide::coordinator {

// Shards, models, jobs and the newest operations as they are now.
//   models : those that are registered; status.models are their names.
StatusPage MakeStatusPage(const ClusterStatus& status, const std::vector<ModelSpec>& models,
                          const std::vector<OperationView>& operations);

}  // namespace dslide::coordinator
