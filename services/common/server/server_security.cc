#include "services/common/server/server_security.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/system/log.h"
#include "services/common/server/authorizer.h"
#include "services/common/server/roles.h"

namespace dslide {
namespace {

using grpc::experimental::FileWatcherCertificateProvider;

// gRPC looks at the store's copies this often, which are in memory.
constexpr unsigned kLookSeconds = 1;

std::shared_ptr<FileWatcherCertificateProvider> MakeProvider(const TlsStore& store) {
  return std::make_shared<FileWatcherCertificateProvider>(
      store.identity_path(), store.identity_path(), store.ca_path(), kLookSeconds);
}

}  // namespace

absl::Status CheckTlsSettings(const TlsSettings& settings) {
  RETURN_IF_ERROR(CheckTlsFileNames(settings.files));
  RETURN_IF_ERROR(CheckClusterName(settings.cluster));
  if (!settings.files.ca.empty() && !settings.files.has_identity()) {
    return absl::InvalidArgumentError(
        "--tls-ca without --tls-cert: a server needs a certificate of its own");
  }
  const std::string& mode = settings.authorization;
  if (!mode.empty() && mode != "roles" && mode != "none") {
    return absl::InvalidArgumentError(absl::StrCat("--authorization is \"", EscapeForLog(mode, 80),
                                                   "\": it must be roles or none"));
  }
  if (mode == "roles" && settings.files.ca.empty()) {
    return absl::InvalidArgumentError(
        "--authorization roles needs --tls-ca: roles are read from clients' certificates");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<TlsStore>> OpenTls(const TlsSettings& settings) {
  RETURN_IF_ERROR(CheckTlsSettings(settings));
  if (settings.files.empty()) return std::shared_ptr<TlsStore>();
  return TlsStore::Open(settings.files, settings.reload_interval);
}

std::shared_ptr<grpc::ServerCredentials> MakeTlsServerCredentials(const TlsStore& store,
                                                                  const TlsSettings& settings,
                                                                  Metrics& metrics) {
  grpc::experimental::TlsServerCredentialsOptions options(MakeProvider(store));
  options.watch_identity_key_cert_pairs();
  if (!store.ca_path().empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  if (!store.crl_dir().empty()) options.set_crl_directory(store.crl_dir());
  auto credentials = grpc::experimental::TlsServerCredentials(options);
  if (settings.roles_apply()) {
    credentials->SetAuthMetadataProcessor(std::make_shared<Authorizer>(settings.cluster, metrics));
  }
  return credentials;
}

std::shared_ptr<grpc::ChannelCredentials> MakeTlsChannelCredentials(const TlsStore& store) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(MakeProvider(store));
  options.set_certificate_verifier(
      std::make_shared<grpc::experimental::HostNameCertificateVerifier>());
  if (!store.ca_path().empty()) options.watch_root_certs();
  if (!store.identity_path().empty()) options.watch_identity_key_cert_pairs();
  if (!store.crl_dir().empty()) options.set_crl_directory(store.crl_dir());
  return grpc::experimental::TlsCredentials(options);
}

void AddTlsMetrics(const std::shared_ptr<const TlsStore>& store, Metrics& metrics) {
  constexpr char kReloads[] = "dslide_tls_reloads_total";
  constexpr char kReloadsHelp[] = "New certificates found, by whether they were fit for use.";
  metrics.AddGaugeCallback(store.get(), "dslide_tls_certificate_expiry_timestamp_seconds",
                           "When the certificate in use ends, in Unix time.", {}, [store] {
                             return absl::ToDoubleSeconds(store->expires() - absl::UnixEpoch());
                           });
  metrics.AddCounterCallback(store.get(), kReloads, kReloadsHelp, {{"result", "taken"}},
                             [store] { return static_cast<double>(store->reloads()); });
  metrics.AddCounterCallback(store.get(), kReloads, kReloadsHelp, {{"result", "refused"}},
                             [store] { return static_cast<double>(store->refusals()); });
}

}  // namespace dslide
