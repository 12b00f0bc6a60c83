// The assets of models in cluster checkpoints: manifests name sets that the asset store keeps.

#pragma once

#include "absl/status/status.h"
#include "services/coordinator/assets/asset_store.h"
#include "services/coordinator/checkpoints/manifest.h"
#include "services/coordinator/checkpoints/manifest_store.h"
#include "services/coordinator/tasks/work_progress.h"

namespace dslide::coordinator {

// Keeps those that manifests name and those that models have, and no others. Where a manifest
// cannot be read, nobody knows what it names, and all of them stay.
void RetainAssets(const ManifestStore& manifests, AssetStore& assets);

// Takes in those of a checkpoint that came back from a copy. Errors: those of AssetStore::TakeIn.
absl::Status TakeInAssets(const Manifest& manifest, AssetStore& assets);

// Reads every byte of them. Errors: DataLoss; the progress's own.
absl::Status VerifyAssets(const Manifest& manifest, const AssetStore& assets,
                          const WorkProgress& progress);

}  // namespace dslide::coordinator
