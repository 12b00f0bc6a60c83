#include "core/engine/data/file_output.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/system/files/system_error.h"

namespace dslide {
namespace {

constexpr size_t kBufferBytes = 1 << 20;
// As many as the system itself follows.
constexpr int kMaxLinks = 40;
// Leftovers of killed processes that had the same number are few.
constexpr int kMaxNames = 1000;

absl::Status WriteAll(int fd, absl::string_view bytes, const std::string& name) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return LocalFileError("write", name, errno);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

// Where a link leads to, whether that is there or not. Links of /proc say it in words of their own.
std::string BehindLinks(std::string path) {
  for (int i = 0; i < kMaxLinks && !absl::StartsWith(path, "/proc/"); ++i) {
    char target[PATH_MAX];
    const ssize_t size = readlink(path.c_str(), target, sizeof(target));
    if (size < 0) break;
    const std::string leads_to(target, static_cast<size_t>(size));
    path = absl::StartsWith(leads_to, "/") ? leads_to : absl::StrCat(FolderOf(path), leads_to);
  }
  return path;
}

// A new file beside `path`; of a name that nobody else uses.
int OpenBeside(const std::string& path, mode_t mode, std::string* name) {
  int fd = -1;
  for (int i = 0; i < kMaxNames; ++i) {
    *name = absl::StrCat(path, ".partial-", getpid(), i == 0 ? "" : absl::StrCat("-", i));
    fd = open(name->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return fd;
}

}  // namespace

absl::Status LocalFileError(absl::string_view what, const std::string& path, int error) {
  absl::Status judged = SystemError(what, path, error);
  if (!absl::IsUnavailable(judged)) return judged;
  return absl::ErrnoToStatus(error, absl::StrCat("cannot ", what, " ", path));
}

absl::StatusOr<FileOutput> FileOutput::Create(const std::string& path) {
  FileOutput output;
  output.path_ = BehindLinks(path);
  struct stat info;
  const bool exists = stat(output.path_.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write ", path, ": it is a directory; name a file"));
  }
  if (exists && (!S_ISREG(info.st_mode) || absl::StartsWith(output.path_, "/proc/"))) {
    output.fd_ = open(output.path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (output.fd_ < 0) return LocalFileError("write", path, errno);
    return output;
  }
  // A rename asks the folder alone.
  if (exists && access(output.path_.c_str(), W_OK) != 0)
    return LocalFileError("write", path, errno);
  output.fd_ = OpenBeside(output.path_, exists ? info.st_mode & 0777 : 0644, &output.partial_);
  if (output.fd_ < 0) return LocalFileError("create", path, errno);
  return output;
}

FileOutput::FileOutput(FileOutput&& other) noexcept
    : path_(std::move(other.path_)),
      partial_(std::move(other.partial_)),
      fd_(std::exchange(other.fd_, -1)),
      buffer_(std::move(other.buffer_)) {}

FileOutput::~FileOutput() {
  if (fd_ < 0) return;
  close(fd_);
  if (!partial_.empty()) unlink(partial_.c_str());
}

absl::Status FileOutput::Append(absl::string_view bytes) {
  buffer_.append(bytes.data(), bytes.size());
  return buffer_.size() >= kBufferBytes ? Flush() : absl::OkStatus();
}

absl::Status FileOutput::Flush() {
  absl::Status status = WriteAll(fd_, buffer_, path_);
  buffer_.clear();
  return status;
}

absl::Status FileOutput::Commit() {
  RETURN_IF_ERROR(Flush());
  // close() is where some file systems first say that the disk is full.
  const int failed = close(std::exchange(fd_, -1));
  if (failed == 0 && partial_.empty()) return absl::OkStatus();
  if (failed == 0 && rename(partial_.c_str(), path_.c_str()) == 0) return absl::OkStatus();
  absl::Status status = LocalFileError("write", path_, errno);
  if (!partial_.empty()) unlink(partial_.c_str());
  return status;
}

absl::Status FileOutput::CommitDurably() {
  RETURN_IF_ERROR(Flush());
  if (partial_.empty()) return Commit();
  if (fsync(fd_) != 0) return LocalFileError("sync", path_, errno);
  RETURN_IF_ERROR(Commit());
  const std::string folder = FolderOf(path_);
  return SyncFolder(folder.empty() ? "." : folder);
}

absl::Status SyncFolder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  const int result = fsync(fd);
  const int error = errno;
  close(fd);
  if (result == 0) return absl::OkStatus();
  return LocalFileError("sync", path, error);
}

absl::StatusOr<TemporaryFile> TemporaryFile::Create(const std::string& directory) {
  TemporaryFile file;
  file.directory_ = directory;
  if (file.directory_.empty()) {
    const char* from_environment = getenv("TMPDIR");
    const bool is_set = from_environment != nullptr && *from_environment != '\0';
    file.directory_ = is_set ? from_environment : "/tmp";
  }
  std::string name = absl::StrCat(file.directory_, "/dslide-XXXXXX");
  file.fd_ = mkostemp(name.data(), O_CLOEXEC);
  if (file.fd_ < 0) {
    return LocalFileError("create",
                          absl::StrCat("a temporary file in ", file.directory_,
                                       " (set TMPDIR to choose another folder)"),
                          errno);
  }
  unlink(name.c_str());
  return file;
}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept
    : directory_(std::move(other.directory_)), fd_(std::exchange(other.fd_, -1)) {}

TemporaryFile::~TemporaryFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status TemporaryFile::Append(absl::string_view bytes) {
  return WriteAll(fd_, bytes,
                  absl::StrCat("a temporary file in ", directory_,
                               " (set TMPDIR to choose a folder with more space)"));
}

absl::StatusOr<DataFile> TemporaryFile::Map(const std::string& path) const {
  return DataFile::FromDescriptor(fd_, path);
}

}  // namespace dslide
