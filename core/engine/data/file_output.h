// Writing files that exist completely or not at all.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/engine/data/data_file.h"

namespace dslide {

// A buffered writer of `path`: bytes go to `path`.partial, which takes its name in Commit(). An
// object destroyed before that leaves nothing behind. Movable. Not thread-safe.
class FileOutput {
 public:
  // Errors: system errors naming the path.
  static absl::StatusOr<FileOutput> Create(const std::string& path);

  FileOutput(FileOutput&& other) noexcept;
  FileOutput& operator=(FileOutput&& other) = delete;
  ~FileOutput();

  // Errors: ResourceExhausted when the disk is full, else other system errors; all name the path.
  absl::Status Append(absl::string_view bytes);
  // Nothing can be appended afterwards. Errors: as Append().
  absl::Status Commit();
  // The same for what shall survive a loss of power.
  absl::Status CommitDurably();

 private:
  FileOutput() = default;

  absl::Status Flush();

  std::string path_;
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
