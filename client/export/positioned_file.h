// A file whose parts are written in any order, and that exists completely or not at all.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dslide {

// Bytes go to `path`.partial, which takes its name in Commit(). An object that is destroyed before
// leaves nothing behind. Movable. Not thread-safe.
class PositionedFile {
 public:
  // Errors: system errors naming the path.
  static absl::StatusOr<PositionedFile> Create(const std::string& path);

  PositionedFile(PositionedFile&& other) noexcept;
  PositionedFile& operator=(PositionedFile&&) = delete;
  ~PositionedFile();

  // Errors: ResourceExhausted when the disk is full, else other system errors; all name the path.
  absl::Status WriteAt(int64_t offset, absl::string_view bytes);
  // Also makes the content durable. Errors: as WriteAt().
  absl::Status Commit();

 private:
  PositionedFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_ = -1;
};

// Whether something may be written to `path`: nothing is there, or a file or a folder that
// `overwrite` allows to replace. Links, devices and pipes are never replaced.
// Errors: InvalidArgument naming the path and the remedy.
absl::Status CheckReplaceable(const std::string& path, bool overwrite);
// Whether the file system of `path`, which need not exist, has room for so many bytes.
// Errors: ResourceExhausted with both numbers.
absl::Status CheckRoomFor(const std::string& path, int64_t bytes);

}  // namespace dslide
