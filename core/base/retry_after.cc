#include "core/base/retry_after.h"

#include <algorithm>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/reason.h"

namespace dslide {
namespace {

constexpr char kRetryPayload[] = "type.dslide.dev/retry_after_ms";

}  // namespace

absl::Status OverloadStatus(absl::string_view reason, absl::string_view message,
                            absl::Duration retry_after) {
  absl::Status status = StatusWithReason(absl::StatusCode::kResourceExhausted, reason, message);
  SetRetryAfterMs(status, std::max<int64_t>(1, absl::ToInt64Milliseconds(retry_after)));
  return status;
}

int64_t RetryAfterMs(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryPayload);
  int64_t value = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &value)) return 0;
  return std::max<int64_t>(0, value);
}

void SetRetryAfterMs(absl::Status& status, int64_t retry_after_ms) {
  if (status.ok()) return;
  status.SetPayload(kRetryPayload, absl::Cord(absl::StrCat(retry_after_ms)));
}

}  // namespace dslide
