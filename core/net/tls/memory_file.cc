#include "core/net/tls/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace dslide {
namespace {

absl::Status SystemError(const char* what) {
  return absl::InternalError(absl::StrCat("cannot ", what, ": ", std::strerror(errno)));
}

}  // namespace

absl::Status MemoryFile::Replace(absl::string_view text) {
  const int fd = ::memfd_create("dslide-tls", MFD_CLOEXEC);
  if (fd < 0) return SystemError("make a file in memory for certificates");
  // Readers compare the modification time, in seconds, to see whether a file was replaced while
  // they read; so each version has another one.
  const timespec time{.tv_sec = ++versions_, .tv_nsec = 0};
  const timespec times[] = {time, time};
  absl::Status written;
  if (::fchmod(fd, S_IRUSR | S_IWUSR) != 0 ||
      ::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::futimens(fd, times) != 0) {
    written = SystemError("write a file in memory for certificates");
  } else if (fd_ < 0) {
    fd_ = fd;
    path_ = absl::StrCat("/proc/self/fd/", fd);
    if (::access(path_.c_str(), R_OK) == 0) return absl::OkStatus();
    written = SystemError("read /proc/self/fd, which must be mounted for TLS");
    fd_ = -1;
  } else if (::dup3(fd, fd_, O_CLOEXEC) < 0) {
    written = SystemError("replace a file in memory");
  }
  ::close(fd);
  return written;
}

}  // namespace dslide
