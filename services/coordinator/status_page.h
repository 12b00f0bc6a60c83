// The coordinator's page for people.

#pragma once

#include "core/metrics/status_page.h"
#include "services/coordinator/coordinator.h"

namespace dslide::coordinator {

// Shards, models and jobs as they are now.
StatusPage MakeStatusPage(const ClusterStatus& status);

}  // namespace dslide::coordinator
