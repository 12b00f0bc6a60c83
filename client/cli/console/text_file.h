// Whole files that a person has named.

#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace dslide::cli {

// Without a byte order mark. Errors: NotFound, with the path and why it cannot be read,
// PermissionDenied where this user may not; an empty file counts as unreadable.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

}  // namespace dslide::cli
