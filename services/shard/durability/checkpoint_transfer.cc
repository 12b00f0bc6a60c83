#include "services/shard/durability/checkpoint_transfer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/system/file_list.h"
#include "core/system/files/system_error.h"
#include "services/common/files/durable_files.h"
#include "services/common/files/file_pieces.h"
#include "services/shard/durability/checkpoint_participant.h"

namespace dslide::shard {
namespace {

namespace fs = std::filesystem;

absl::Status CheckPlace(const std::string& path, int64_t offset) {
  if (const absl::Status inside = CheckListedPath(path); !inside.ok()) {
    return StatusWithReason(absl::StatusCode::kInvalidArgument, reason::kOutOfRange,
                            inside.message());
  }
  // An image has the files of a model in a directory, and nothing below that.
  if (std::count(path.begin(), path.end(), '/') > 1) {
    return StatusWithReason(absl::StatusCode::kInvalidArgument, reason::kOutOfRange,
                            absl::StrCat("path \"", path, "\" is too deep"));
  }
  if (offset >= 0) return absl::OkStatus();
  return StatusWithReason(absl::StatusCode::kInvalidArgument, reason::kOutOfRange,
                          absl::StrCat("offset is ", offset, ", must be 0 or more"));
}

absl::Status Absent(uint64_t checkpoint_id, const std::string& path) {
  return StatusWithReason(absl::StatusCode::kNotFound, reason::kUnknownCheckpoint,
                          absl::StrCat("this shard has no ", path, " of cluster checkpoint ",
                                       checkpoint_id, ": it was removed, or never taken here"));
}

}  // namespace

absl::StatusOr<std::string> CheckpointTransfer::Read(uint64_t checkpoint_id,
                                                     const std::string& path,
                                                     int64_t offset) const {
  RETURN_IF_ERROR(CheckPlace(path, offset));
  absl::StatusOr<std::string> piece = ReadPiece(
      absl::StrCat(images_->PathOf(checkpoint_id), "/", path), offset, kCheckpointPieceBytes);
  if (absl::IsNotFound(piece.status())) return Absent(checkpoint_id, path);
  return piece;
}

absl::Status CheckpointTransfer::Write(uint64_t checkpoint_id, const std::string& path,
                                       int64_t offset, absl::string_view piece) {
  RETURN_IF_ERROR(CheckPlace(path, offset));
  if (static_cast<int64_t>(piece.size()) > kCheckpointPieceBytes) {
    return StatusWithReason(absl::StatusCode::kInvalidArgument, reason::kOverLimit,
                            absl::StrCat("a piece has ", piece.size(), " bytes, at most ",
                                         kCheckpointPieceBytes, " fit"));
  }
  const absl::MutexLock lock(&mu_);
  const fs::path full = fs::path(images_->ArrivalPathOf(checkpoint_id)) / path;
  RETURN_IF_ERROR(MakeDirectory(full.parent_path()));
  const int begin = offset == 0 ? O_TRUNC : 0;
  const int fd =
      open(full.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | begin, S_IRUSR | S_IWUSR);
  if (fd < 0) return SystemError("make", full, errno);
  const absl::Cleanup closed = [fd] { close(fd); };
  struct stat now = {};
  if (fstat(fd, &now) != 0) return SystemError("look at", full, errno);
  if (offset > now.st_size) {
    return StatusWithReason(
        absl::StatusCode::kInvalidArgument, reason::kOutOfRange,
        absl::StrCat(path, " has ", now.st_size, " bytes here, the piece is for ", offset,
                     ": send the file from its beginning"));
  }
  return WritePiece(fd, offset, piece, full);
}

absl::StatusOr<FileListSummary> CheckpointTransfer::Adopt(uint64_t checkpoint_id,
                                                          uint32_t checksum) {
  const absl::MutexLock lock(&mu_);
  const std::string arrival = images_->ArrivalPathOf(checkpoint_id);
  absl::StatusOr<FileListSummary> present = VerifyPart(*images_, checkpoint_id, checksum);
  if (present.ok()) {
    RETURN_IF_ERROR(RemoveAll(arrival));
    return present;
  }
  std::error_code error;
  // What is wrong with the image that is there says more than that nothing came in its place.
  if (!fs::is_directory(arrival, error)) return present;
  return images_->Adopt(checkpoint_id, checksum);
}

}  // namespace dslide::shard
