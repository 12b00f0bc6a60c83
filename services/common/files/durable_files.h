// Files and directories whose changes survive a loss of power once the function has returned.
//
// Errors: those of SystemError() (core/system/files/system_error.h), unless a line says otherwise.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dslide {

// With its parents, for this user alone. Fine when it is there.
absl::Status MakeDirectory(const std::filesystem::path& path);
// Makes names that were added, renamed or removed in it durable.
absl::Status SyncDirectory(const std::filesystem::path& path);
// All files below it, and the names in it and below.
absl::Status SyncTree(const std::filesystem::path& path);
// With everything in it. Fine when there is nothing.
absl::Status RemoveAll(const std::filesystem::path& path);
// Replaces a file of the new name. Durable after SyncDirectory() of the parents.
absl::Status Rename(const std::filesystem::path& from, const std::filesystem::path& to);

// Puts a file of this content in the place of an earlier one: whoever looks, also after a crash,
// finds the old one or the new one, whole.
absl::Status ReplaceFile(const std::filesystem::path& path, absl::string_view content);
// Errors: NotFound too.
absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path);

}  // namespace dslide
