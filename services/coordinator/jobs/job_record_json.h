// Records of jobs as JSON: of manifests and of the coordinator's store.

#pragma once

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "services/coordinator/jobs/job_spec.h"

namespace dslide::coordinator {

using OrderedJson = nlohmann::ordered_json;

OrderedJson JobRecordToJson(const JobRecord& job);
// Throws what the library throws when a field is missing or has another type. Errors:
// InvalidArgument naming a field of the training or of a rate that does not fit.
absl::StatusOr<JobRecord> JobRecordFromJson(const OrderedJson& json);

}  // namespace dslide::coordinator
