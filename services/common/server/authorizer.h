// Asks the table of roles before each call is handled.

#pragma once

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/auth_metadata_processor.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "core/net/metrics/metrics.h"
#include "services/common/server/roles.h"

namespace dslide {

// What the URI names of a peer's certificate make it in the cluster.
RoleSet RolesOfPeer(const grpc::AuthContext& peer, absl::string_view cluster);

// The counter of calls that are refused because of what is in the caller's certificate.
Counter AddDeniedCalls(Metrics& metrics);

// Sees every call of a server: unary ones, streams, calls of raw bytes, health, reflection and what
// the server does not know. gRPC's own policy engine (gRFC A43) could match the same names, but its
// refusals tell neither the role nor the method.
//
// Thread safety: safe from any thread.
class Authorizer final : public grpc::AuthMetadataProcessor {
 public:
  // `metrics` must outlive the server.
  Authorizer(std::string cluster, Metrics& metrics);

  // It only compares names: not worth another thread.
  bool IsBlocking() const override { return false; }

  // PERMISSION_DENIED unless a URI name of the peer's certificate gives a role that may call the
  // method.
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context,
                       OutputMetadata* consumed, OutputMetadata* response) override;

 private:
  const std::string cluster_;
  Counter denied_;
};

}  // namespace dslide
