// The list of a directory's files with their sizes and CRC-32Cs, as a sealed text:
//
//   dslide files 1
//   <CRC-32C in hexadecimal> <bytes> <path relative to the directory>
//   ...
//   crc32c <of the list itself>

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dslide {

// What the list is called in the directory that it lists.
inline constexpr char kFileListName[] = "FILES";

struct ListedFile {
  std::string path;  // relative
  int64_t bytes = 0;
  uint32_t crc = 0;
  friend bool operator==(const ListedFile&, const ListedFile&) = default;
};

struct FileList {
  std::vector<ListedFile> files;
  uint32_t checksum = 0;  // of the list itself

  int64_t bytes() const;
};

std::string EncodeFileList(const std::vector<ListedFile>& files);
// path: for errors. Errors: DataLoss when it does not have its checksum, or names a file outside of
// its directory; FailedPrecondition when another version has written it.
absl::StatusOr<FileList> DecodeFileList(const std::string& path, absl::string_view text);

// Whether a path stays below the directory that it is relative to: parts of letters, digits, '.',
// '_' and '-', none of them "." or "..". Errors: InvalidArgument naming it.
absl::Status CheckListedPath(absl::string_view path);

// Reads a file. Errors: NotFound; Unavailable naming the path.
absl::StatusOr<ListedFile> SumFile(const std::string& directory, const std::string& path);
// Reads a file and compares it. Errors: DataLoss naming what differs; Unavailable.
absl::Status CheckListedFile(const std::string& directory, const ListedFile& file);
// Compares what was found of a file with what is listed. Errors: DataLoss naming what differs.
absl::Status CompareListedFile(const std::string& directory, const ListedFile& file,
                               const ListedFile& found);

}  // namespace dslide
