// Archives of one file, read to their last byte.

#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/engine/data/archives/archive_format.h"

namespace dslide {

struct PackedFile {
  int fd = -1;       // at its first byte
  std::string path;  // for messages
  int64_t bytes = 0;
  ArchiveFormat format = ArchiveFormat::kNone;  // one that is read
};

// Gives the unpacked bytes to `sink`, block by block, those of all members one after the other.
// progress: as DataFileOptions has it; may be empty.
// Errors: DataLoss for what is cut or corrupt, of which checksums are missing or wrong, and for
// bytes after the last member that are none; those of `sink`.
absl::Status Unpack(const PackedFile& file,
                    const std::function<void(int64_t done, int64_t total)>& progress,
                    absl::FunctionRef<absl::Status(absl::string_view)> sink);

}  // namespace dslide
