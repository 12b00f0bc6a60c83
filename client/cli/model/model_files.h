// The texts of a model directory (model_dir.h) under one seal: FILES names each with its size and
// CRC-32C (core/system/file_list.h), so that a flipped bit in a weight is not taken for a weight.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dslide::cli {

// Whether a file of that name is one of the texts or their list.
bool IsModelFile(absl::string_view name);

// Lists the texts that are there. Errors: system errors naming the file.
absl::Status SealModelFiles(const std::string& directory);
// Makes the texts, their list and the names in the directory survive a loss of power.
absl::Status SyncModelFiles(const std::string& directory);

// Whether the texts are those that were sealed; false when there is no list, as in a directory of
// an earlier version. Errors: DataLoss naming the file that is missing, changed or of another
// model, and the remedy; those of LocalFileError() for one that cannot be read.
absl::StatusOr<bool> CheckModelFiles(const std::string& directory);

}  // namespace dslide::cli
