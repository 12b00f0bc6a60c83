#include "services/common/files/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/system/files/system_error.h"
#include "services/common/files/durable_files.h"

namespace dslide {

absl::StatusOr<std::unique_ptr<DirectoryLock>> DirectoryLock::Take(const std::string& directory) {
  RETURN_IF_ERROR(MakeDirectory(directory));
  const std::string path = absl::StrCat(directory, "/LOCK");
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return SystemError("open", path, errno);
  std::unique_ptr<DirectoryLock> lock(new DirectoryLock(file));
  if (flock(file, LOCK_EX | LOCK_NB) == 0) return lock;
  return absl::FailedPreconditionError(absl::StrCat(
      "data directory ", directory, " is in use by another process: give each shard its own"));
}

DirectoryLock::~DirectoryLock() { close(file_); }

}  // namespace dslide
