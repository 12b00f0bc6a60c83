#include "core/base/reason.h"

#include "absl/strings/cord.h"

namespace dslide {
namespace {

constexpr char kReasonPayload[] = "type.dslide.dev/reason";

}  // namespace

absl::Status StatusWithReason(absl::StatusCode code, absl::string_view reason,
                              absl::string_view message) {
  absl::Status status(code, message);
  if (!status.ok()) status.SetPayload(kReasonPayload, absl::Cord(reason));
  return status;
}

std::string ReasonOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kReasonPayload);
  return payload.has_value() ? std::string(*payload) : std::string();
}

}  // namespace dslide
