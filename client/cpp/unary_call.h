// One unary call with everything around it: deadline, byte counts, error text, bounded repetition.

#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <algorithm>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cpp/client_options.h"
#include "client/cpp/grpc_status.h"
#include "client/cpp/wire_counters.h"
#include "core/base/retry_after.h"
#include "core/wire/request_id.h"

namespace dslide {

// For handshakes before the first answer: time for a server that is being started with its
// certificates.
inline constexpr absl::Duration kHandshakePatience = absl::Seconds(5);

struct UnaryCall {
  absl::string_view peer;    // for errors
  absl::string_view remedy;  // for the errors that say that nobody answers
  const char* name;
  WireMethod method;
  WireCounters* counters;  // may be null
  absl::Duration timeout;
  RetryOptions retry;
  bool repeat;                        // the call is safe to repeat
  absl::string_view request_id = "";  // as ClientOptions::request_id
  // Handshakes that fail for so long, and nothing else meanwhile, are not repeated any more: the
  // two sides' certificates do not get to fit by it.
  absl::Duration handshake_patience = absl::InfiniteDuration();
};

// Pause before a repetition: what the server asked for, or the client's own schedule.
inline absl::Duration PauseBefore(const absl::Status& status, const RetryOptions& retry,
                                  int attempt, uint64_t salt) {
  const int64_t asked_ms = RetryAfterMs(status);
  return asked_ms > 0 ? absl::Milliseconds(asked_ms) : retry.Delay(attempt, salt);
}

// Asks again after UNAVAILABLE while the deadline allows. ask(): one attempt, a StatusOr. For calls
// whose repetition can do no harm.
template <typename Ask>
auto RepeatUnavailable(const RetryOptions& retry, absl::Time deadline, uint64_t salt,
                       const Ask& ask) {
  for (int attempt = 1;; ++attempt) {
    auto reply = ask();
    if (reply.ok() || !absl::IsUnavailable(reply.status())) return reply;
    const absl::Duration pause = PauseBefore(reply.status(), retry, attempt, salt);
    if (absl::Now() + pause >= deadline) return reply;
    absl::SleepFor(pause);
  }
}

// `invoke(context, response)` makes one attempt. Repeats after UNAVAILABLE while the deadline
// allows. What is returned at the deadline is the last error that says why, not DEADLINE_EXCEEDED.
// PERMISSION_DENIED after handshake_patience.
template <typename Request, typename Response, typename Invoke>
absl::StatusOr<Response> RunUnaryCall(const UnaryCall& call, const Request& request,
                                      Invoke&& invoke) {
  const absl::Time deadline = absl::Now() + call.timeout;
  const uint64_t salt = reinterpret_cast<uintptr_t>(&request);
  const std::string request_id = wire::RequestIdOrNew(call.request_id);  // of all attempts
  absl::Status why;
  absl::Time handshakes_fail_since = absl::InfiniteFuture();
  for (int attempt = 1;; ++attempt) {
    grpc::ClientContext context;
    PrepareContext(context, deadline, request_id);
    // The first attempt learns at once why nobody answers. A repetition waits for the connection:
    // gRPC works on a broken one only during calls, and otherwise every five seconds. A failing
    // handshake would be waited for, too.
    context.set_wait_for_ready(attempt > 1 && handshakes_fail_since == absl::InfiniteFuture());
    Response response;
    if (call.counters != nullptr) call.counters->AddSent(call.method, request.ByteSizeLong());
    const grpc::Status status = invoke(&context, &response);
    if (status.ok()) {
      if (call.counters != nullptr) {
        call.counters->AddReceived(call.method, response.ByteSizeLong());
      }
      return response;
    }
    absl::Status error = FromGrpc(status, call.peer, call.name, request_id);
    if (NobodyAnswered(status)) {
      error = absl::Status(error.code(), absl::StrCat(error.message(), "; ", call.remedy));
    }
    if (absl::IsDeadlineExceeded(error) && !why.ok()) return why;
    if (!call.repeat || !absl::IsUnavailable(error)) return error;
    why = std::move(error);
    if (!HandshakeFailed(status)) {
      handshakes_fail_since = absl::InfiniteFuture();
    } else if (handshakes_fail_since = std::min(handshakes_fail_since, absl::Now());
               absl::Now() - handshakes_fail_since >= call.handshake_patience) {
      return absl::PermissionDeniedError(why.message());
    }
    const absl::Duration pause = PauseBefore(why, call.retry, attempt, salt);
    if (absl::Now() + pause >= deadline) return why;
    absl::SleepFor(pause);
  }
}

}  // namespace dslide
