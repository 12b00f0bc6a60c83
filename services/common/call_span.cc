#include "services/common/call_span.h"

#include "absl/strings/str_cat.h"
#include "core/wire/request_id.h"

namespace dslide {
namespace {

absl::string_view ValueOf(const CallMetadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return "";
  return {found->second.data(), found->second.size()};
}

std::string SpanName(const RpcMetrics::Method& method) {
  return absl::StrCat(method.service(), "/", method.name());
}

Span Described(Span span, const RpcMetrics::Method& method, const CallMetadata& metadata) {
  span.SetAttribute("rpc.system", "grpc");
  span.SetAttribute("rpc.service", method.service());
  span.SetAttribute("rpc.method", method.name());
  const absl::string_view id = ValueOf(metadata, wire::kRequestIdKey);
  if (wire::IsRequestId(id)) span.SetAttribute("dslide.request_id", id);
  return span;
}

}  // namespace

TraceContext TraceOf(const CallMetadata& metadata) {
  return ParseTraceparent(ValueOf(metadata, kTraceparentKey));
}

Span FollowCall(const RpcMetrics::Method& method, const CallMetadata& metadata) {
  // Most calls have no trace.
  const TraceContext parent = TraceOf(metadata);
  if (!parent.valid()) return Span();
  return Described(Span::Follow(SpanName(method), SpanKind::kServer, parent), method, metadata);
}

Span BeginCall(const RpcMetrics::Method& method, const CallMetadata& metadata) {
  return Described(Span::Begin(SpanName(method), SpanKind::kServer, TraceOf(metadata)), method,
                   metadata);
}

}  // namespace dslide
