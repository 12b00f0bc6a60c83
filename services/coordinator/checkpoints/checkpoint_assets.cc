#include "services/coordinator/checkpoints/checkpoint_assets.h"

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/status_macros.h"

namespace dslide::coordinator {

void RetainAssets(const ManifestStore& manifests, AssetStore& assets) {
  std::vector<AssetSetId> named;
  for (const uint64_t checkpoint_id : manifests.List()) {
    const absl::StatusOr<Manifest> manifest = manifests.Read(checkpoint_id);
    if (!manifest.ok()) return;
    for (const AssetSet& set : AssetsOf(*manifest)) named.push_back(set.id);
  }
  assets.Retain(named);
}

absl::Status TakeInAssets(const Manifest& manifest, AssetStore& assets) {
  for (const AssetSet& set : AssetsOf(manifest)) RETURN_IF_ERROR(assets.TakeIn(set));
  return absl::OkStatus();
}

absl::Status VerifyAssets(const Manifest& manifest, const AssetStore& assets,
                          const WorkProgress& progress) {
  for (const AssetSet& set : AssetsOf(manifest)) {
    RETURN_IF_ERROR(progress.Check());
    RETURN_IF_ERROR(assets.Verify(set));
  }
  return absl::OkStatus();
}

}  // namespace dslide::coordinator
