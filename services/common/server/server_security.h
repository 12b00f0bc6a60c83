// What a server demands of those who connect: encryption, certificates, roles.

#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/net/metrics/metrics.h"
#include "core/net/tls/tls_files.h"
#include "core/net/tls/tls_store.h"

namespace dslide {

struct TlsSettings {
  // Without any: plaintext. With `ca`, clients without a certificate of it are refused.
  TlsFiles files = {};
  absl::Duration reload_interval = kDefaultTlsReloadInterval;
  // The cluster in the URI names dslide://<cluster>/<role> of certificates.
  std::string cluster = "dslide";
  // "roles": each method is for some roles. "none": every certificate of `ca` may call everything.
  // "": roles when client certificates are required, else none.
  std::string authorization = {};

  bool roles_apply() const {
    return authorization == "roles" || (authorization.empty() && !files.ca.empty());
  }
  // What JobGuard is made with: nobody is bound to jobs where roles do not apply.
  std::string job_cluster() const { return roles_apply() ? cluster : ""; }
};

// Whether the settings fit together. Reads no file. Errors: InvalidArgument naming the flag.
absl::Status CheckTlsSettings(const TlsSettings& settings);

// Opens the certificates; null when there are none. Errors: those of CheckTlsSettings and of
// TlsStore::Open.
absl::StatusOr<std::shared_ptr<TlsStore>> OpenTls(const TlsSettings& settings);

// Credentials that follow what the store offers: new connections see new certificates.
// `metrics` must outlive the server.
std::shared_ptr<grpc::ServerCredentials> MakeTlsServerCredentials(const TlsStore& store,
                                                                  const TlsSettings& settings,
                                                                  Metrics& metrics);

// The other side: the server's certificate must be of the store's authorities (without any: of the
// system's) and name the address.
std::shared_ptr<grpc::ChannelCredentials> MakeTlsChannelCredentials(const TlsStore& store);

// Shows on the page what the store does; the page keeps the store.
void AddTlsMetrics(const std::shared_ptr<const TlsStore>& store, Metrics& metrics);

}  // namespace dslide
