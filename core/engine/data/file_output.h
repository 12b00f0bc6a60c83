// Writing files that exist completely or not at all.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/engine/data/data_file.h"

namespace dslide {

// SystemError() of a file that somebody has named: what that calls Unavailable, for servers, has
// the code of absl::ErrnoToStatus(). No file is a cluster that does not answer.
absl::Status LocalFileError(absl::string_view what, const std::string& path, int error);

// A buffered writer of `path`: bytes go to a file beside it, which takes its name in Commit(). An
// object destroyed before that leaves nothing behind. A link stays, and what it leads to is written
// so. What is no file - a device, a pipe, a descriptor in /proc - is written into as it is: it has
// got what was appended, whatever comes of the rest. Movable. Not thread-safe.
class FileOutput {
 public:
  // Errors: PermissionDenied for a file that may not be written; other system errors; all name the
  // path.
  static absl::StatusOr<FileOutput> Create(const std::string& path);

  FileOutput(FileOutput&& other) noexcept;
  FileOutput& operator=(FileOutput&& other) = delete;
  ~FileOutput();

  // Errors: ResourceExhausted DISK_FULL when the disk is full, else other system errors; all name
  // the path.
  absl::Status Append(absl::string_view bytes);
  // Nothing can be appended afterwards. Errors: as Append().
  absl::Status Commit();
  // The same for what shall survive a loss of power.
  absl::Status CommitDurably();

 private:
  FileOutput() = default;

  absl::Status Flush();

  std::string path_;     // where a link of the name that was given leads to
  std::string partial_;  // "": path_ is no file
  int fd_ = -1;
  std::string buffer_;
};

// Makes names that were added to or renamed in a directory durable. Errors: system errors naming
// it.
absl::Status SyncFolder(const std::string& path);

// A file without a name, for data that need not survive the process. Movable. Not thread-safe.
class TemporaryFile {
 public:
  // directory "": $TMPDIR, or /tmp. Errors: system errors naming the directory.
  static absl::StatusOr<TemporaryFile> Create(const std::string& directory);

  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile& operator=(TemporaryFile&& other) = delete;
  ~TemporaryFile();

  // Unbuffered. Errors: ResourceExhausted when the disk is full, naming the directory and the
  // remedy.
  absl::Status Append(absl::string_view bytes);
  // Maps what was written, read-only. `path` is what the mapping calls itself.
  absl::StatusOr<DataFile> Map(const std::string& path) const;

 private:
  TemporaryFile() = default;

  std::string directory_;
  int fd_ = -1;
};

}  // namespace dslide
