// A file that lives in memory only, at a path of this process.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace dslide {

// For libraries that want to read a file again and again, while its bytes shall never be half old
// and half new, and never reach a disk. Replace() is atomic: whoever opens path() reads all of one
// text.
//
// The file stays until the process ends, whatever becomes of this object: who holds the path may
// still read it. Not thread-safe; readers need no synchronisation.
class MemoryFile {
 public:
  MemoryFile() = default;
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // The first call makes the file. Errors: Internal when the system refuses one.
  absl::Status Replace(absl::string_view text);

  // "" before the first Replace(); constant afterwards.
  const std::string& path() const { return path_; }

 private:
  int fd_ = -1;
  int versions_ = 0;
  std::string path_;
};

}  // namespace dslide
