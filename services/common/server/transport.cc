#include "services/common/server/transport.h"

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <climits>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "services/common/server/server_security.h"

namespace dslide {
namespace {

constexpr int kLookaheadBytes = 16 << 20;
constexpr int kKeepaliveMs = 10'000;

}  // namespace

void SetServerArguments(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kTransportMessageBytes);
  builder.SetMaxSendMessageSize(kTransportMessageBytes);
  // Without this, two servers share one port and the kernel splits the clients between them.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookaheadBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_TCP_TX_ZEROCOPY_ENABLED, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // Half of the clients' interval: a ping that is early by jitter is not an attack.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kKeepaliveMs / 2);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
}

void SetMaxConnectionAge(grpc::ServerBuilder& builder, absl::Duration age) {
  const int64_t ms = std::min<int64_t>(absl::ToInt64Milliseconds(age), INT_MAX);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, static_cast<int>(ms));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, kConnectionGraceMs);
}

grpc::ChannelArguments ServiceChannelArguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kTransportMessageBytes);
  arguments.SetMaxSendMessageSize(kTransportMessageBytes);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookaheadBytes);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_TCP_TX_ZEROCOPY_ENABLED, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  // Not a pause: the time that one attempt may take, with its handshake.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kHandshakeTimeoutMs);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
  return arguments;
}

ServiceChannelFactory NetworkServiceChannels(bool insecure,
                                             const std::shared_ptr<const TlsStore>& tls) {
  const std::shared_ptr<grpc::ChannelCredentials> encrypted =
      tls == nullptr ? nullptr : MakeTlsChannelCredentials(*tls);
  // The store is kept as long as somebody may open a channel: it renews what the channels use.
  return [insecure, tls,
          encrypted](const std::string& text) -> absl::StatusOr<std::shared_ptr<grpc::Channel>> {
    ASSIGN_OR_RETURN(const ListenAddress address, ParseListenAddress(text));
    const bool local = IsLocalOnly(address);
    if (encrypted == nullptr && !insecure && !local) {
      return absl::FailedPreconditionError(
          absl::StrCat("plaintext to ", text,
                       " would leave this machine; start with --tls-cert, --tls-key and --tls-ca, "
                       "or with --insecure to allow it on a trusted network"));
    }
    grpc::ChannelArguments arguments = ServiceChannelArguments();
    if (local) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    return grpc::CreateCustomChannel(
        text, encrypted == nullptr ? grpc::InsecureChannelCredentials() : encrypted, arguments);
  };
}

absl::Status CheckPlaintext(const ListenAddress& address, bool insecure) {
  if (insecure || IsLocalOnly(address)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "refusing to serve plaintext on ", address.ToString(),
      ", which other machines can reach: whoever connects could read and change every model. "
      "Start with --tls-cert, --tls-key and --tls-ca, listen on 127.0.0.1 or unix:PATH, or start "
      "with --insecure on a trusted network"));
}

}  // namespace dslide
