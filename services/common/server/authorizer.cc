#include "services/common/server/authorizer.h"

#include <grpc/grpc_security_constants.h>

#include <utility>

#include "core/net/tls/certificate_jobs.h"
#include "services/common/failed_call.h"

namespace dslide {
namespace {

absl::string_view ToView(const grpc::string_ref& text) { return {text.data(), text.size()}; }

}  // namespace

RoleSet RolesOfPeer(const grpc::AuthContext& peer, absl::string_view cluster) {
  RoleSet held;
  for (const grpc::string_ref& name : peer.FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
    const absl::string_view uri = ToView(name);
    if (const auto role = RoleOfUri(uri, cluster); role.has_value()) held.Add(*role);
    // A trainer of some jobs; job_guard.h asks which.
    if (const auto job = JobOfUri(uri, cluster); job.has_value() && !job->empty()) {
      held.Add(Role::kTrainer);
    }
  }
  return held;
}

Counter AddDeniedCalls(Metrics& metrics) {
  return metrics.AddCounter("dslide_server_denied_calls_total",
                            "Calls refused because of the role or the jobs in the caller's "
                            "certificate.");
}

Authorizer::Authorizer(std::string cluster, Metrics& metrics)
    : cluster_(std::move(cluster)), denied_(AddDeniedCalls(metrics)) {}

grpc::Status Authorizer::Process(const InputMetadata& metadata, grpc::AuthContext* context,
                                 OutputMetadata* /*consumed*/, OutputMetadata* /*response*/) {
  const RoleSet held = RolesOfPeer(*context, cluster_);
  const auto found = metadata.find(":path");
  const absl::string_view path = found == metadata.end() ? "" : ToView(found->second);
  const absl::Status allowed = CheckRoles(held, path);
  if (allowed.ok()) return grpc::Status::OK;
  denied_.Increment();
  return EndFailedCall(path, RequestIdOf(metadata), allowed);
}

}  // namespace dslide
