// What a person wants to know of assets on the disk (asset_folders.h has the layout).

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace dslide::coordinator {

// Reads every byte of every set below a coordinator's data directory, and changes nothing; how many
// sets there are. Errors: NotFound when there is no such folder; DataLoss naming what is damaged;
// those of SystemError().
absl::StatusOr<int64_t> InspectAssets(const std::string& data_dir);

}  // namespace dslide::coordinator
