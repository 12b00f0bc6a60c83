// The files of an image while they are read: whatever is read of one is summed on the way, so that
// an image can be compared with its list of files (image/file_list.h) without reading it again.
//
// Databases read most of a file from its beginning to its end, after a look at its end: those bytes
// are kept, and neither read nor summed twice. Internal to the shard's storage.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/system/file_list.h"

namespace rocksdb {
class Env;
}  // namespace rocksdb

namespace dslide::shard {

// Thread safety: safe from any thread, but Finish(), which is the last call.
class SummedFiles {
 public:
  explicit SummedFiles(std::string directory);
  ~SummedFiles();

  const std::string& directory() const { return directory_; }
  // For databases that read and are closed before this is gone.
  rocksdb::Env* env() const { return env_.get(); }
  // A whole file. Errors: DataLoss when it is missing; Unavailable naming the path.
  absl::StatusOr<std::string> Read(const std::string& path);

  // What was read, by path relative to the directory and sorted. Reads what is left of those files.
  // Errors: Unavailable naming the path.
  absl::StatusOr<std::vector<ListedFile>> Finish();

  // For tests: how often the system was asked, by all files so far.
  struct Reads {
    int64_t opened = 0;
    int64_t bytes = 0;
  };
  Reads reads() const;

 private:
  class FileSystem;

  const std::string directory_;
  const std::shared_ptr<FileSystem> files_;  // shared with the environment
  const std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace dslide::shard
