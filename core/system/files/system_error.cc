#include "core/system/files/system_error.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/reason.h"

namespace dslide {
namespace {

// As core/protocol/reason_words.h has it for calls.
constexpr char kDiskFullReason[] = "DISK_FULL";

absl::Status Judged(const std::string& message, int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:  // beyond what ulimit allows
      return StatusWithReason(absl::StatusCode::kResourceExhausted, kDiskFullReason,
                              absl::StrCat(message, "; free space there, or name another place"));
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(
          absl::StrCat(message, " (for user ", geteuid(),
                       "); give this user the right (chown, chmod), or run as the owner"));
    case EROFS:
      return absl::PermissionDeniedError(
          absl::StrCat(message, "; mount it for writing, or name another place"));
    default:
      return absl::UnavailableError(message);
  }
}

}  // namespace

absl::Status SystemError(absl::string_view what, const std::string& path, int error) {
  return Judged(absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(error)), error);
}

absl::Status SystemErrorOf(absl::string_view message) {
  for (const int error : {ENOSPC, EDQUOT, EFBIG, EACCES, EPERM, EROFS}) {
    if (absl::StrContains(message, std::strerror(error))) {
      return Judged(std::string(message), error);
    }
  }
  return absl::UnavailableError(message);
}

bool IsDiskFailure(absl::string_view message) {
  return absl::StrContains(message, std::strerror(EIO));
}

bool IsDiskFull(const absl::Status& status) { return ReasonOf(status) == kDiskFullReason; }

}  // namespace dslide
