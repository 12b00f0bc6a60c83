#include "services/common/failed_call.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/base/clock.h"
#include "core/base/reason.h"
#include "core/system/log.h"
#include "core/wire/request_id.h"
#include "services/common/status_mapping.h"

namespace dslide {
namespace {

// A person who looks for a call finds it among so many; a day of them is some 20 MB of text.
constexpr double kFailuresPerSecond = 1;
// What a client does wrong once with each of its shards and models comes at once.
constexpr double kFailuresAtOnce = 30;

// Of the process, as its log is.
class FailureRate {
 public:
  constexpr FailureRate() = default;

  // False: the line is left out. `left_out`: how many were since the last one.
  bool Take(int64_t& left_out) {
    const absl::MutexLock lock(&mu_);
    const absl::Duration now = SteadyClock().Now();
    lines_ = std::min(kFailuresAtOnce,
                      lines_ + kFailuresPerSecond * absl::ToDoubleSeconds(now - filled_));
    filled_ = now;
    if (lines_ < 1) {
      ++left_out_;
      return false;
    }
    --lines_;
    left_out = std::exchange(left_out_, 0);
    return true;
  }

 private:
  absl::Mutex mu_{absl::kConstInit};
  double lines_ ABSL_GUARDED_BY(mu_) = kFailuresAtOnce;
  absl::Duration filled_ ABSL_GUARDED_BY(mu_);
  int64_t left_out_ ABSL_GUARDED_BY(mu_) = 0;
};

ABSL_CONST_INIT FailureRate failure_rate;

LogLevel LevelOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kUnknown:
      return LogLevel::kError;
    case absl::StatusCode::kCancelled:
      return LogLevel::kDebug;
    default:
      return LogLevel::kInfo;
  }
}

}  // namespace

std::string RequestIdOf(const CallMetadata& metadata) {
  const auto found = metadata.find(wire::kRequestIdKey);
  return wire::RequestIdOrNew(found == metadata.end()
                                  ? absl::string_view()
                                  : absl::string_view(found->second.data(), found->second.size()));
}

void LogFailure(absl::string_view method, absl::string_view request_id, const absl::Status& error) {
  const LogLevel level = LevelOf(error.code());
  if (!LogEnabled(level)) return;
  int64_t left_out = 0;
  if (level != LogLevel::kError && !failure_rate.Take(left_out)) return;
  Log(level, "call failed",
      {{"request", request_id},
       {"method", method},
       {"code", absl::StatusCodeToString(error.code())},
       {"reason", ReasonOf(error)},
       {"error", error.message()},
       {"left_out", left_out}});
}

grpc::Status EndFailedCall(absl::string_view method, absl::string_view request_id,
                           const absl::Status& error) {
  LogFailure(method, request_id, error);
  return ToGrpcStatus(error, request_id);
}

}  // namespace dslide
