#include "client/cpp/channel_factory.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/net/tls/tls_store.h"
#include "core/system/listen_address.h"
#include "dslide/v1/shard.grpc.pb.h"

namespace dslide {
namespace {

// gRPC looks at the store's copies this often, which are in memory.
constexpr unsigned kLookSeconds = 1;

std::shared_ptr<grpc::ChannelCredentials> TlsChannelCredentials(const TlsStore& store) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          store.identity_path(), store.identity_path(), store.ca_path(), kLookSeconds));
  options.set_certificate_verifier(
      std::make_shared<grpc::experimental::HostNameCertificateVerifier>());
  if (!store.ca_path().empty()) options.watch_root_certs();
  if (!store.identity_path().empty()) options.watch_identity_key_cert_pairs();
  if (!store.crl_dir().empty()) options.set_crl_directory(store.crl_dir());
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace

bool StaysOnThisMachine(absl::string_view address) {
  if (absl::StartsWith(address, "unix-abstract:")) return true;
  const absl::StatusOr<ListenAddress> parsed = ParseListenAddress(address);
  return parsed.ok() && !parsed->host.empty() ? IsLocalOnly(*parsed)
                                              : parsed.ok() && parsed->is_unix;
}

void KeepCallbackQueue() {
  struct Call {
    grpc::ClientContext context;
    v1::GetServerInfoRequest request;
    v1::GetServerInfoResponse response;
  };
  // Without credentials a channel fails every call at once, but its first call takes the share.
  static const std::shared_ptr<grpc::Channel>* const kept = [] {
    const auto* const channel =
        new std::shared_ptr<grpc::Channel>(grpc::CreateChannel("", /*creds=*/nullptr));
    auto* const call = new Call();
    v1::ShardService::NewStub(*channel)->async()->GetServerInfo(
        &call->context, &call->request, &call->response,
        [call](const grpc::Status&) { delete call; });
    return channel;
  }();
  (void)kept;
}

void SetTransportArguments(grpc::ChannelArguments& arguments) {
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 16 << 20);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_TCP_TX_ZEROCOPY_ENABLED, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 30000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Not a pause: the time that one attempt may take, with its handshake.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
}

ChannelFactory NetworkChannels(const ChannelOptions& options) {
  // The factory keeps the store, which renews what its channels use.
  absl::StatusOr<std::shared_ptr<TlsStore>> store = std::shared_ptr<TlsStore>();
  if (!options.tls.empty()) store = TlsStore::Open(options.tls, options.tls_reload_interval);
  const std::shared_ptr<grpc::ChannelCredentials> encrypted =
      store.ok() && *store != nullptr ? TlsChannelCredentials(**store) : nullptr;
  return [insecure = options.insecure, store,
          encrypted](const std::string& address) -> absl::StatusOr<std::shared_ptr<grpc::Channel>> {
    RETURN_IF_ERROR(store.status());
    absl::StatusOr<ListenAddress> parsed = ParseListenAddress(address);
    if (!parsed.ok() || (!parsed->is_unix && (parsed->host.empty() || parsed->port == 0))) {
      return absl::InvalidArgumentError(absl::StrCat(
          "address \"", address, "\" is not host:port (for example 127.0.0.1:7000) or unix:PATH"));
    }
    if (encrypted == nullptr && !insecure && !StaysOnThisMachine(address)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", address, "\" is another machine and the connection would not be encrypted: pass ",
          "--tls-ca, --tls-cert and --tls-key, or --insecure to accept that on a network you "
          "trust"));
    }
    grpc::ChannelArguments arguments;
    SetTransportArguments(arguments);
    // Also a promise: plaintext without --insecure stays on this machine.
    if (StaysOnThisMachine(address)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    return grpc::CreateCustomChannel(
        address, encrypted == nullptr ? grpc::InsecureChannelCredentials() : encrypted, arguments);
  };
}

}  // namespace dslide
