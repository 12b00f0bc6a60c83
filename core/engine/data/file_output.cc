#include "core/engine/data/file_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace dslide {
namespace {

constexpr size_t kBufferBytes = 1 << 20;

absl::Status WriteAll(int fd, absl::string_view bytes, const std::string& name) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", name));
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

std::string PartialName(const std::string& path) { return path + ".partial"; }

}  // namespace

absl::StatusOr<FileOutput> FileOutput::Create(const std::string& path) {
  FileOutput output;
  output.path_ = path;
  output.fd_ = open(PartialName(path).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (output.fd_ < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", path));
  return output;
}

FileOutput::FileOutput(FileOutput&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      buffer_(std::move(other.buffer_)) {}

FileOutput::~FileOutput() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(PartialName(path_).c_str());
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
  if (failed != 0 || rename(PartialName(path_).c_str(), path_.c_str()) != 0) {
    absl::Status status = absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_));
    unlink(PartialName(path_).c_str());
    return status;
  }
  return absl::OkStatus();
}

absl::Status FileOutput::CommitDurably() {
  RETURN_IF_ERROR(Flush());
  if (fsync(fd_) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot sync ", path_));
  RETURN_IF_ERROR(Commit());
  const size_t slash = path_.rfind('/');
  return SyncFolder(slash == std::string::npos ? "." : path_.substr(0, slash + 1));
}

absl::Status SyncFolder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  const int result = fsync(fd);
  const int error = errno;
  close(fd);
  if (result == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(error, absl::StrCat("cannot sync ", path));
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
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("cannot create a temporary file in ", file.directory_,
                                            " (set TMPDIR to choose another folder)"));
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
