// The coordinator's page for people.

#pragma once

#include "core/net/http/status_page.h"
#include "services/coordinator/control/coordinator.h"

namespace dslide::coordinator {

// Shards, models and jobs as they are now.
StatusPage MakeStatusPage(const ClusterStatus& status);

}  // namespace dslide::coordinator
