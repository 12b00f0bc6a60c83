// A model directory that one process writes at a time.

#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dslide::cli {

inline constexpr char kModelDirLock[] = "LOCK";

// Held by the file LOCK while the object lives; a process that dies lets go of it. Readers have no
// part in it.
class ModelDirLock {
 public:
  // Makes the directory when it is missing. Errors: InvalidArgument naming the process that has it;
  // those of LocalFileError().
  static absl::StatusOr<std::unique_ptr<ModelDirLock>> Take(const std::string& path);
  // Leaves no file, and no directory that Take() made and that is empty.
  ~ModelDirLock();
  ModelDirLock(const ModelDirLock&) = delete;
  ModelDirLock& operator=(const ModelDirLock&) = delete;

 private:
  explicit ModelDirLock(std::string path) : path_(std::move(path)) {}

  const std::string path_;
  int file_ = -1;
  std::string made_;  // the outermost directory that Take() made; "": none
};

// Who has the lock, or had it when he was killed ("process 12 on host h"); "" when nobody has.
// Takes no lock and changes nothing.
std::string ModelDirHolder(const std::string& path);

}  // namespace dslide::cli
