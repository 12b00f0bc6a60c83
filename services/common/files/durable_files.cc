#include "services/common/files/durable_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/system/failpoint.h"
#include "core/system/files/system_error.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

absl::Status FileError(absl::string_view what, const fs::path& path, const std::error_code& error) {
  return SystemError(what, path.string(), error.value());
}

absl::Status WriteAll(int fd, absl::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError("write", path, errno);
    content.remove_prefix(static_cast<size_t>(written));
  }
  if (fsync(fd) != 0) return SystemError("sync", path, errno);
  return absl::OkStatus();
}

// A file or a directory. `flags`: further ones of open().
absl::Status SyncEntry(const fs::path& path, int flags) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  if (fd < 0) return SystemError("open", path, errno);
  const int result = fsync(fd);
  const int error = errno;
  close(fd);
  if (result != 0) return SystemError("sync", path, error);
  return absl::OkStatus();
}

}  // namespace

absl::Status MakeDirectory(const fs::path& path) {
  const mode_t previous = umask(0077);
  std::error_code error;
  fs::create_directories(path, error);
  umask(previous);
  if (error) return FileError("make the directory", path, error);
  return absl::OkStatus();
}

absl::Status SyncDirectory(const fs::path& path) { return SyncEntry(path, O_DIRECTORY); }

absl::Status SyncTree(const fs::path& path) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (const auto& entry : fs::recursive_directory_iterator(path, error)) {
    entries.push_back(entry.path());
  }
  if (error) return FileError("list", path, error);
  entries.push_back(path);
  for (const fs::path& entry : entries) RETURN_IF_ERROR(SyncEntry(entry, 0));
  return absl::OkStatus();
}

absl::Status RemoveAll(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) return FileError("remove", path, error);
  return absl::OkStatus();
}

absl::Status Rename(const fs::path& from, const fs::path& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    return SystemError(absl::StrCat("rename ", from.string(), " to"), to, errno);
  }
  return absl::OkStatus();
}

absl::Status ReplaceFile(const fs::path& path, absl::string_view content) {
  const std::string fresh = absl::StrCat(path.string(), ".new");
  const int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return SystemError("make", fresh, errno);
  const absl::Status written = WriteAll(fd, content, fresh);
  if (close(fd) != 0 && written.ok()) return SystemError("close", fresh, errno);
  RETURN_IF_ERROR(written);
  DSLIDE_FAILPOINT("files.replace.synced");
  RETURN_IF_ERROR(Rename(fresh, path));
  DSLIDE_FAILPOINT("files.replace.renamed");
  RETURN_IF_ERROR(SyncDirectory(path.parent_path()));
  DSLIDE_FAILPOINT("files.replace.durable");
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFile(const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) {
    return absl::NotFoundError(absl::StrCat(path.string(), " does not exist"));
  }
  if (fd < 0) return SystemError("open", path, errno);
  std::string content;
  char block[1 << 16];
  ssize_t count = 0;
  while ((count = read(fd, block, sizeof(block))) != 0) {
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    content.append(block, static_cast<size_t>(count));
  }
  const int error = errno;
  close(fd);
  if (count < 0) return SystemError("read", path, error);
  return content;
}

}  // namespace dslide
