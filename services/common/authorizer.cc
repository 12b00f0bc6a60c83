#include "services/common/authorizer.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>

#include <utility>

#include "services/common/status_mapping.h"

namespace dslide {
namespace {

absl::string_view ToView(const grpc::string_ref& text) { return {text.data(), text.size()}; }

}  // namespace

Authorizer::Authorizer(std::string cluster, Metrics& metrics)
    : cluster_(std::move(cluster)),
      denied_(metrics.AddCounter("dslide_server_denied_calls_total",
                                 "Calls refused because of the caller's role.")) {}

grpc::Status Authorizer::Process(const InputMetadata& metadata, grpc::AuthContext* context,
                                 OutputMetadata* /*consumed*/, OutputMetadata* /*response*/) {
  RoleSet held;
  for (const grpc::string_ref& uri : context->FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
    if (const auto role = RoleOfUri(ToView(uri), cluster_); role.has_value()) held.Add(*role);
  }
  const auto path = metadata.find(":path");
  const absl::Status allowed =
      CheckRoles(held, path == metadata.end() ? absl::string_view() : ToView(path->second));
  if (allowed.ok()) return grpc::Status::OK;
  denied_.Increment();
  return ToGrpcStatus(allowed);
}

}  // namespace dslide
