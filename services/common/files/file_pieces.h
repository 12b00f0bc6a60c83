// Parts of files, as they travel in messages.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dslide {

// At most `most` bytes from `offset` on; fewer where the file ends. No link is followed. Errors:
// NotFound; those of SystemError().
absl::StatusOr<std::string> ReadPiece(const std::string& path, int64_t offset, int64_t most);

// Writes all of `piece` into the open file fd, from `offset` on. `path` is for errors: those of
// SystemError().
absl::Status WritePiece(int fd, int64_t offset, absl::string_view piece, const std::string& path);

}  // namespace dslide
