// Training jobs as dslide shows them.

#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/protocol/cluster_status.h"

namespace dslide::cli {

nlohmann::ordered_json JobToJson(const JobStatus& job);

// A line each.
std::string JobsTable(absl::Span<const JobStatus> jobs);

}  // namespace dslide::cli
