// A directory that one process uses at a time.

#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace dslide {

// Held by its file LOCK while the object lives; a process that dies lets go of it.
class DirectoryLock {
 public:
  // Makes the directory when it is missing.
  // Errors: FailedPrecondition when another process has it; Unavailable with the system's reason.
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Take(const std::string& directory);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  explicit DirectoryLock(int file) : file_(file) {}
  const int file_;
};

}  // namespace dslide
