// The assets of a model of a cluster, as whole sets.

#pragma once

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/coordinator_client.h"
#include "core/system/file_list.h"

namespace dslide::cli {

// name -> bytes
using AssetFiles = std::map<std::string, std::string>;

// The list that such a set is known by.
FileList ListOfAssets(const AssetFiles& files);

// "0badcafe"
std::string AssetChecksum(uint32_t checksum);

// Those of a list that the coordinator has. Errors: those of the calls; DataLoss naming what did
// not arrive as it was listed.
absl::StatusOr<AssetFiles> ReadAssets(CoordinatorClient& coordinator, const std::string& model,
                                      const FileList& list);

// Sends a set, for its commit. Errors: those of the calls.
absl::Status SendAssets(CoordinatorClient& coordinator, const std::string& model,
                        const AssetFiles& files);

// Sends a set and makes it the model's. Errors: those of the calls; FailedPrecondition
// ASSETS_DIFFER when the model has another one than that of the checksum `replaces`.
absl::Status PutAssets(CoordinatorClient& coordinator, const std::string& model,
                       const AssetFiles& files, std::optional<uint32_t> replaces = std::nullopt);

// The list of a set that the coordinator has, of the model or of a checkpoint. Errors: those of the
// calls; DataLoss.
absl::StatusOr<FileList> ReadAssetList(CoordinatorClient& coordinator, const std::string& model,
                                       uint32_t checksum);

}  // namespace dslide::cli
