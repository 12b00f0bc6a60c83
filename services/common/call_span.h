// The span of a call that a server answers.

#pragma once

#include "services/common/failed_call.h"
#include "services/common/rpc_metrics.h"
#include "services/common/trace/span.h"

namespace dslide {

// What the caller sent as traceparent; not valid() when it sent none.
TraceContext TraceOf(const CallMetadata& metadata);

// Below the caller's span; nothing where it has none. With the attributes that OpenTelemetry gives
// to RPCs, and the call's request id.
Span FollowCall(const RpcMetrics::Method& method, const CallMetadata& metadata);
// The same where a trace may begin.
Span BeginCall(const RpcMetrics::Method& method, const CallMetadata& metadata);

}  // namespace dslide
