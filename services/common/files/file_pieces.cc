#include "services/common/files/file_pieces.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/system/files/system_error.h"

namespace dslide {

absl::StatusOr<std::string> ReadPiece(const std::string& path, int64_t offset, int64_t most) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
    return absl::NotFoundError(absl::StrCat(path, " does not exist"));
  }
  if (fd < 0) return SystemError("open", path, errno);
  const absl::Cleanup closed = [fd] { close(fd); };
  std::string piece(static_cast<size_t>(most), '\0');
  size_t have = 0;
  while (have < piece.size()) {
    const ssize_t got =
        pread(fd, piece.data() + have, piece.size() - have, offset + static_cast<int64_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError("read", path, errno);
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  piece.resize(have);
  return piece;
}

absl::Status WritePiece(int fd, int64_t offset, absl::string_view piece, const std::string& path) {
  while (!piece.empty()) {
    const ssize_t written = pwrite(fd, piece.data(), piece.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError("write", path, errno);
    piece.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
  return absl::OkStatus();
}

}  // namespace dslide
