// What a shard's part of a cluster checkpoint may be built on: its part of an earlier one, whose
// rows it takes over by hard links, so that each part's directory stands for itself.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/system/file_list.h"
#include "services/shard/image/shard_image.h"

namespace dslide::shard {

// Which one, and the checksum of its list of files; as the coordinator names it.
struct PartBase {
  uint64_t checkpoint_id = 0;  // 0: none, all rows are to be written
  uint32_t files_checksum = 0;
};

struct LinkedBase {
  int64_t increments = 0;
  std::vector<ListedFile> files;  // that were linked, relative, with their checksums
};

// Makes `directory` with links to the row databases of the image in `base`, whose files are of the
// sizes that its list says and whose models are those of `parts`. Names in it are durable, but not
// its own.
// Errors: those of ReadFileList; FailedPrecondition or DataLoss saying why it cannot be built on;
// Unavailable when a link cannot be made. The directory may be there then.
absl::StatusOr<LinkedBase> LinkBase(const std::string& base, uint32_t files_checksum,
                                    const ImageParts& parts, const std::string& directory);

}  // namespace dslide::shard
