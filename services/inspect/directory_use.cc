#include "services/inspect/directory_use.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace dslide {

bool ShardUses(const std::string& data_dir) {
  const int fd = open(absl::StrCat(data_dir, "/LOCK").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;  // a copy
  const bool used = flock(fd, LOCK_SH | LOCK_NB) != 0;
  close(fd);
  return used;
}

bool CoordinatorUses(const std::string& data_dir) {
  const int fd = open(absl::StrCat(data_dir, "/catalog/LOCK").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  struct flock lock = {};
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  const bool used = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  close(fd);
  return used;
}

}  // namespace dslide
