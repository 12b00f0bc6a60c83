#include "services/common/files/data_dir_error.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "core/base/reason.h"

namespace dslide {
namespace {

constexpr char kDataDirPayload[] = "type.dslide.dev/data-dir";

absl::StatusCode CodeFor(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kFailedPrecondition:
      return code;
    // To a client it would be a server that does not answer.
    case absl::StatusCode::kUnavailable:
      return absl::StatusCode::kInternal;
    default:
      return absl::StatusCode::kDataLoss;
  }
}

}  // namespace

absl::Status DataDirError(const std::string& path, const absl::Status& status) {
  if (status.ok()) return status;
  absl::Status error =
      StatusWithReason(CodeFor(status.code()), ReasonOf(status),
                       absl::StrCat("data directory ", path, ": ", status.message()));
  error.SetPayload(kDataDirPayload, absl::Cord());
  return error;
}

bool IsDataDirError(const absl::Status& status) {
  return status.GetPayload(kDataDirPayload).has_value();
}

}  // namespace dslide
