#include "client/cpp/grpc_status.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/channel_factory.h"
#include "core/base/reason.h"
#include "core/base/retry_after.h"
#include "core/base/version.h"
#include "core/net/trace/trace_context.h"
#include "core/wire/request_id.h"
#include "core/wire/status_details.h"

namespace dslide {
namespace {

// Connections to other machines go through a proxy when these are set; people forget that they are.
std::string ProxyHint(const std::string& message, absl::string_view peer) {
  const size_t at = peer.rfind(' ');  // "coordinator at HOST:PORT"
  if (!absl::StartsWith(message, "failed to connect") || at == absl::string_view::npos ||
      StaysOnThisMachine(peer.substr(at + 1))) {
    return "";
  }
  for (const char* name : {"grpc_proxy", "https_proxy", "http_proxy"}) {  // in gRPC's order
    const char* const proxy = std::getenv(name);
    if (proxy == nullptr || *proxy == '\0') continue;
    return absl::StrCat(" (through the proxy ", proxy, " of the variable ", name,
                        ": add the host to no_proxy if it is to be reached directly)");
  }
  return "";
}

}  // namespace

bool HandshakeFailed(const grpc::Status& status) {
  const std::string& message = status.error_message();
  if (!absl::StartsWith(message, "failed to connect")) return false;
  // What takes the connection itself calls itself so, when a busy machine or a lost packet took
  // longer than an attempt may.
  if (absl::StrContains(message, "tcp handshaker")) return false;
  for (const char* part : {"Socket closed", "andshake", "Hostname Verification"}) {
    if (absl::StrContains(message, part)) return true;
  }
  return false;
}

absl::Status FromGrpc(const grpc::Status& status, absl::string_view peer, absl::string_view call,
                      absl::string_view request_id) {
  if (status.ok()) return absl::OkStatus();
  auto code = static_cast<absl::StatusCode>(status.error_code());
  if (code == absl::StatusCode::kCancelled) code = absl::StatusCode::kUnavailable;
  absl::Status result(code,
                      absl::StrCat(peer, ", ", call, ": ", status.error_message(),
                                   HandshakeFailed(status)
                                       ? " (the handshake failed: check --tls-ca, --tls-cert and "
                                         "--tls-key, and what the server was started with)"
                                       : "",
                                   ProxyHint(status.error_message(), peer)));
  const std::string answered = wire::DecodeStatusDetails(status.error_details(), result);
  return wire::NameRequest(result, answered.empty() ? request_id : answered);
}

bool NobodyAnswered(const grpc::Status& status) {
  if (!status.error_details().empty()) return false;
  for (const char* start : {"failed to connect", "DNS resolution failed", "Deadline Exceeded"}) {
    if (absl::StartsWith(status.error_message(), start)) return true;
  }
  return false;
}

void PrepareContext(grpc::ClientContext& context, absl::Time deadline,
                    const std::string& request_id) {
  context.set_deadline(absl::ToChronoTime(deadline));
  context.AddMetadata("dslide-client", Version());
  context.AddMetadata(wire::kRequestIdKey, request_id);
  const TraceContext& trace = CurrentTrace();
  if (trace.valid()) context.AddMetadata(kTraceparentKey, trace.ToTraceparent());
}

}  // namespace dslide
