// The coordinator's page for people.

#pragma once

#include <vector>

#include "core/net/http/status_page.h"
#include "services/coordinator/control/coordinator.h"
#include "services/coordinator/operations/operation.h"

namespace dslide::coordinator {

// Shards, models, jobs and the newest operations as they are now.
StatusPage MakeStatusPage(const ClusterStatus& status,
                          const std::vector<OperationView>& operations);

}  // namespace dslide::coordinator
