// Training that goes on with a model of a directory.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/console/global_options.h"
#include "client/cli/model/model_dir.h"
#include "client/cpp/cluster_client.h"
#include "core/engine/data/dataset.h"
#include "core/spec/model_spec.h"

namespace dslide::cli {

// Models that are there before a training begins or files are imported.
struct KnownModels {
  std::vector<ModelSpec> specs = {};          // of the cluster, or the one of the directory
  std::optional<StoredModel> continued = {};  // the one that data is for; none when it has no texts
};

// `name`, or that of the only model where it is "". Errors: InvalidArgument when there is none or
// several.
absl::StatusOr<std::string> ChooseModel(const std::vector<ModelSpec>& models,
                                        const std::string& name);

// Of the directory, or of the cluster HOST:PORT unless that is "". `name`: the model that data is
// for; it need not be there. Errors: those of LoadModel(), ConnectToCoordinator() and FetchTexts(),
// but for texts that are damaged: those are none.
absl::StatusOr<KnownModels> FindInDirectory(const std::string& path);
absl::StatusOr<KnownModels> FindInCluster(const GlobalOptions& global, const std::string& cluster,
                                          const std::string& name);

// Of an embedded cluster where nobody says how many: those of the directory whose training goes on,
// else one.
int64_t EmbeddedShards(const KnownModels& known);

// Before a training without --grow. Errors: FailedPrecondition MODEL_DIFFERS for data with more
// features than the model knows, where no table is there to be too small for them.
absl::Status CheckFeatures(const KnownModels& known, const ModelSpec& spec, const Dataset& data);

// Whether the model of the cluster has rows or names now that it did not have then, or is there
// now.
bool HasGrown(const KnownModels& then, const KnownModels& now, const std::string& name);

// Whether training the model of a directory can go on as `wanted`. Errors: those of
// CheckRowsKept(); InvalidArgument when it was made with other settings, but those of training, or
// on other shards.
absl::Status CheckResume(const StoredModel& stored, const std::string& path,
                         const StoredModel& wanted);

// Gives a model whose training goes on with new data what is known of its features and labels: as
// it was, and what the data says of those that it did not have.
void ContinueTexts(StoredModel kept, StoredModel* model);

// Makes the job of a client ready to go on: one that was interrupted `continues`; one that has
// ended would have no work left, and one of other settings would refuse these: they begin again.
// Errors: those of CoordinatorClient::DeleteJob().
absl::Status PrepareJob(ClusterClient& cluster, bool continues);

}  // namespace dslide::cli
