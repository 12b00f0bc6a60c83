#include "services/coordinator/membership/fan_out.h"

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/retry_after.h"
#include "core/system/files/system_error.h"

namespace dslide::coordinator {
namespace {

constexpr int kMaxNamed = 8;

// Space does not come by waiting.
bool RepetitionMayHeal(const absl::Status& status) {
  const absl::StatusCode code = status.code();
  if (IsDiskFull(status)) return false;
  return code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDeadlineExceeded ||
         code == absl::StatusCode::kResourceExhausted || code == absl::StatusCode::kAborted;
}

}  // namespace

absl::Status CombineFailures(const std::string& what, const std::vector<ShardInfo>& shards,
                             const std::vector<absl::Status>& results) {
  const absl::Status* gravest = nullptr;
  int failures = 0;
  std::string details;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].ok()) continue;
    ++failures;
    if (gravest == nullptr || (RepetitionMayHeal(*gravest) && !RepetitionMayHeal(results[i]))) {
      gravest = &results[i];
    }
    if (failures <= kMaxNamed) {
      absl::StrAppend(&details, failures == 1 ? "" : "; ", "shard ", shards[i].shard.value(),
                      " at ", shards[i].address, ": ", absl::StatusCodeToString(results[i].code()),
                      ": ", results[i].message());
    }
  }
  if (gravest == nullptr) return absl::OkStatus();
  const char* const remedy = RepetitionMayHeal(*gravest) ? "; the call may be repeated" : "";
  absl::Status combined(gravest->code(), absl::StrCat(what, " failed on ", failures, " of ",
                                                      results.size(), " shards: ", details,
                                                      failures > kMaxNamed ? "; ..." : "", remedy));
  const std::string reason = ReasonOf(*gravest);
  if (!reason.empty()) combined = StatusWithReason(combined.code(), reason, combined.message());
  if (const int64_t pause_ms = RetryAfterMs(*gravest); pause_ms > 0) {
    SetRetryAfterMs(combined, pause_ms);
  }
  return combined;
}

}  // namespace dslide::coordinator
