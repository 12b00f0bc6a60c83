#include "client/export/positioned_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

std::string UnfinishedName(const std::string& path) { return path + ".partial"; }

}  // namespace

absl::StatusOr<PositionedFile> PositionedFile::Create(const std::string& path) {
  const int fd = open(UnfinishedName(path).c_str(),
                      O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", path));
  return PositionedFile(path, fd);
}

PositionedFile::PositionedFile(PositionedFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

PositionedFile::~PositionedFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(UnfinishedName(path_).c_str());
}

absl::Status PositionedFile::WriteAt(int64_t offset, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (written < 0) {
      if (errno == EINTR) continue;
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_));
    }
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
  return absl::OkStatus();
}

absl::Status PositionedFile::Commit() {
  absl::Status status;
  if (fsync(fd_) != 0) status = absl::ErrnoToStatus(errno, absl::StrCat("cannot sync ", path_));
  // close() is where some file systems first say that the disk is full.
  if (close(std::exchange(fd_, -1)) != 0 && status.ok()) {
    status = absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_));
  }
  if (status.ok() && rename(UnfinishedName(path_).c_str(), path_.c_str()) != 0) {
    status = absl::ErrnoToStatus(errno, absl::StrCat("cannot rename to ", path_));
  }
  if (!status.ok()) unlink(UnfinishedName(path_).c_str());
  return status;
}

absl::Status CheckReplaceable(const std::string& path, bool overwrite) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::not_found) return absl::OkStatus();
  if (status.type() != fs::file_type::regular && status.type() != fs::file_type::directory) {
    return absl::InvalidArgumentError(
        absl::StrCat("--output ", path, ": is a link, a device or cannot be looked at; name a new ",
                     "file or folder"));
  }
  if (overwrite) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--output ", path, ": is there already; pass --overwrite to replace it"));
}

absl::Status CheckRoomFor(const std::string& path, int64_t bytes) {
  std::error_code error;
  fs::path folder = fs::absolute(path, error).parent_path();
  while (!folder.empty() && folder != folder.root_path() && !fs::exists(folder, error)) {
    folder = folder.parent_path();
  }
  const fs::space_info room = fs::space(folder, error);
  // What cannot be asked shows when it is written.
  if (error || room.available >= static_cast<uintmax_t>(bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(folder.string(), ": has room for ",
                                                   room.available, " bytes, ", path, " needs ",
                                                   bytes, ": free some or name another folder"));
}

}  // namespace dslide
