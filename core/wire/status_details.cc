#include "core/wire/status_details.h"

#include "core/base/reason.h"
#include "core/base/retry_after.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace dslide::wire {
namespace {

constexpr char kDomain[] = "dslide";

// Bytes of the UTF-8 character that starts with `lead`; 0 when none does.
size_t CharacterLength(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  if (lead >= 0xf0 && lead <= 0xf4) return 4;
  return 0;
}

bool IsCharacter(absl::string_view text, size_t length) {
  if (length == 0 || length > text.size()) return false;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return false;
  }
  const auto second = length > 1 ? static_cast<unsigned char>(text[1]) : 0x80;
  switch (static_cast<unsigned char>(text[0])) {  // overlong forms, surrogates, beyond U+10FFFF
    case 0xe0:
      return second >= 0xa0;
    case 0xed:
      return second <= 0x9f;
    case 0xf0:
      return second >= 0x90;
    case 0xf4:
      return second <= 0x8f;
    default:
      return true;
  }
}

}  // namespace

std::string ErrorMessageForWire(absl::string_view message) {
  std::string text;
  while (!message.empty()) {
    const size_t length = CharacterLength(static_cast<unsigned char>(message[0]));
    const bool valid = IsCharacter(message, length);
    const absl::string_view piece = valid ? message.substr(0, length) : absl::string_view("?");
    if (text.size() + piece.size() > kMaxErrorMessageBytes) break;
    text.append(piece.data(), piece.size());
    message.remove_prefix(valid ? length : 1);
  }
  return text;
}

std::string EncodeStatusDetails(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  const int64_t retry_after_ms = RetryAfterMs(status);
  if (status.ok() || (reason.empty() && retry_after_ms == 0)) return "";
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
  return details.SerializeAsString();
}

void DecodeStatusDetails(absl::string_view details, absl::Status& status) {
  google::rpc::Status parsed;
  if (status.ok() || details.empty() ||
      !parsed.ParseFromArray(details.data(), static_cast<int>(details.size()))) {
    return;
  }
  std::string reason;
  int64_t retry_after_ms = 0;
  for (const google::protobuf::Any& detail : parsed.details()) {
    google::rpc::ErrorInfo info;
    google::rpc::RetryInfo retry;
    if (detail.UnpackTo(&info) && info.domain() == kDomain) {
      reason = info.reason();
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
}

}  // namespace dslide::wire
