// What every unary handler needs around its work, once: metrics, its place in a trace,
// cancellation, a line in the log when it fails, status mapping.

#pragma once

#include <grpcpp/server_context.h>

#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "services/common/call_span.h"
#include "services/common/failed_call.h"
#include "services/common/rpc_metrics.h"

namespace dslide {

// Runs `handler()`, which fills *response and returns an absl::Status. A call that is already
// cancelled or past its deadline is not run. Works for synchronous and callback services.
template <typename Request, typename Response, typename Handler>
grpc::Status RunUnary(const RpcMetrics::Method& method, const grpc::ServerContextBase& context,
                      const Request& request, Response* response, Handler&& handler) {
  const absl::Duration start = SteadyClock().Now();
  method.RecordStarted();
  Span span = FollowCall(method, context.client_metadata());
  const ScopedTrace trace(span.context());
  method.RecordMessage(MessageDirection::kReceived, static_cast<int64_t>(request.ByteSizeLong()));
  const absl::Status status = context.IsCancelled()
                                  ? absl::CancelledError("the caller gave up before the call ran")
                                  : std::forward<Handler>(handler)();
  if (status.ok()) {
    method.RecordMessage(MessageDirection::kSent, static_cast<int64_t>(response->ByteSizeLong()));
  }
  method.RecordHandled(status.code(), SteadyClock().Now() - start);
  span.End(status);
  return status.ok() ? grpc::Status::OK
                     : EndFailedCall(method.name(), RequestIdOf(context.client_metadata()), status);
}

// Time the caller is still willing to wait, at most `limit`; `limit` when it set no deadline.
inline absl::Duration RemainingTime(const grpc::ServerContextBase& context, absl::Duration limit) {
  const auto left = context.deadline() - std::chrono::system_clock::now();
  return std::min(limit, std::max(absl::ZeroDuration(), absl::FromChrono(left)));
}

}  // namespace dslide
