// The folder in which apt keeps the lists that `apt-get update` fetches.

#pragma once

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dslide {

// The files in `lists_dir` that `wanted` accepts by their names, which it is given without .lz4,
// .gz, .xz or .zst: names without folder, sorted; none when the folder is absent.
// Errors: system errors naming the folder.
absl::StatusOr<std::vector<std::string>> ListAptFiles(
    const std::string& lists_dir, absl::FunctionRef<bool(absl::string_view name)> wanted);

}  // namespace dslide
