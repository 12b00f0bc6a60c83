#include "core/wire/status_details.h"

#include "core/base/reason.h"
#include "core/base/retry_after.h"
#include "core/base/utf8.h"
#include "core/wire/request_id.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace dslide::wire {
namespace {

constexpr char kDomain[] = "dslide";

}  // namespace

std::string ErrorMessageForWire(absl::string_view message) {
  std::string text;
  while (!message.empty()) {
    const size_t length = FirstCharacterBytes(message);
    const absl::string_view piece = length > 0 ? message.substr(0, length) : absl::string_view("?");
    if (text.size() + piece.size() > kMaxErrorMessageBytes) break;
    text.append(piece.data(), piece.size());
    message.remove_prefix(length > 0 ? length : 1);
  }
  return text;
}

std::string EncodeStatusDetails(const absl::Status& status, absl::string_view request_id) {
  const std::string reason = ReasonOf(status);
  const int64_t retry_after_ms = RetryAfterMs(status);
  if (status.ok() || (reason.empty() && retry_after_ms == 0 && request_id.empty())) return "";
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(ErrorMessageForWire(status.message()));
  if (!reason.empty()) {
    google::rpc::ErrorInfo info;
    info.set_reason(reason);
    info.set_domain(kDomain);
    (void)details.add_details()->PackFrom(info);  // fails above 2 GiB alone
  }
  if (retry_after_ms > 0) {
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(retry_after_ms / 1000);
    retry.mutable_retry_delay()->set_nanos(static_cast<int>(retry_after_ms % 1000) * 1'000'000);
    (void)details.add_details()->PackFrom(retry);
  }
  if (!request_id.empty()) {
    google::rpc::RequestInfo request;
    request.set_request_id(std::string(request_id));
    (void)details.add_details()->PackFrom(request);
  }
  return details.SerializeAsString();
}

std::string DecodeStatusDetails(absl::string_view details, absl::Status& status) {
  google::rpc::Status parsed;
  if (status.ok() || details.empty() ||
      !parsed.ParseFromArray(details.data(), static_cast<int>(details.size()))) {
    return "";
  }
  std::string reason;
  std::string request_id;
  int64_t retry_after_ms = 0;
  for (const google::protobuf::Any& detail : parsed.details()) {
    google::rpc::ErrorInfo info;
    google::rpc::RequestInfo request;
    google::rpc::RetryInfo retry;
    if (detail.UnpackTo(&info) && info.domain() == kDomain) {
      reason = info.reason();
    } else if (detail.UnpackTo(&request)) {
      request_id = request.request_id();
    } else if (detail.UnpackTo(&retry)) {
      const auto& delay = retry.retry_delay();
      constexpr int64_t kMaxSeconds = 3600;  // a longer pause is a mistake, and must not overflow
      if (delay.seconds() >= 0 && delay.seconds() <= kMaxSeconds && delay.nanos() >= 0) {
        retry_after_ms = delay.seconds() * 1000 + delay.nanos() / 1'000'000;
      }
    }
  }
  if (!reason.empty()) {
    status = StatusWithReason(status.code(), reason, status.message());
  }
  if (retry_after_ms > 0) SetRetryAfterMs(status, retry_after_ms);
  return IsRequestId(request_id) ? request_id : "";
}

}  // namespace dslide::wire
