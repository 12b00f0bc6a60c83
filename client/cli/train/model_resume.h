// Training that goes on with a model of a directory.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/model/model_dir.h"
#include "client/cpp/cluster_client.h"
#include "core/spec/model_spec.h"

namespace dslide::cli {

// The model of a directory, for a training with settings `wanted` on so many shards.
// Errors: those of LoadModel() and CheckRowsKept(); InvalidArgument when it was made with other
// settings, but those of training, or on other shards.
absl::StatusOr<StoredModel> LoadForResume(const std::string& path, const ModelSpec& wanted,
                                          int64_t shards);

// What is known of the features of a model whose training goes on with new data: as it was, and
// what the data says of those that it did not have.
FeatureStats Continued(FeatureStats kept, const FeatureStats& data);

// Makes the job of a client ready to go on: one that was interrupted `continues`; one that has
// ended would have no work left, and one of other settings would refuse these: they begin again.
// Errors: those of CoordinatorClient::DeleteJob().
absl::Status PrepareJob(ClusterClient& cluster, bool continues);

}  // namespace dslide::cli
