// FILES of a directory: the size and CRC-32C of everything in it, so that what is missing, surplus
// or changed can be named.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/system/file_list.h"

namespace dslide::shard {

struct FileListSummary {
  int64_t files = 0;
  int64_t bytes = 0;
  uint32_t checksum = 0;  // of the list itself
};

// Reads all files below `directory` and writes the list there, durably. Files of which somebody
// else has written the bytes already, `known`, are listed as they were then: of these only the size
// is looked at.
// Errors: Unavailable with the system's reason; DataLoss when a known file has another size.
absl::StatusOr<FileListSummary> WriteFileList(const std::string& directory,
                                              absl::Span<const ListedFile> known = {});

// What the list says, without a look at the files. Errors: DataLoss when it is missing or damaged.
absl::StatusOr<FileListSummary> ReadFileList(const std::string& directory);
absl::StatusOr<FileList> ReadListedFiles(const std::string& directory);

// Compares all files with the list. Those that somebody has read, `read`, are not read again.
// Errors: DataLoss naming the first that is missing, surplus or differs.
absl::StatusOr<FileListSummary> VerifyFileList(const std::string& directory,
                                               absl::Span<const ListedFile> read = {});

}  // namespace dslide::shard
