// Training jobs as dslide shows them.

#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/protocol/cluster_status.h"

namespace dslide::cli {

// The curves, an object an epoch.
nlohmann::ordered_json EpochsToJson(absl::Span<const EpochResult> epochs);
nlohmann::ordered_json JobToJson(const JobStatus& job);

// A line each.
std::string JobsTable(absl::Span<const JobStatus> jobs);

}  // namespace dslide::cli
