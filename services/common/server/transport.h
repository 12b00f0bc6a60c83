// Transport settings of servers and of the channels that services open to one another.

#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/net/tls/tls_store.h"
#include "core/system/listen_address.h"

namespace dslide {

// The protocol's limit of a message, and what a receiver accepts: bulk fields of 4 MiB with the
// envelope around them.
inline constexpr int kProtocolMessageBytes = 4 << 20;
inline constexpr int kTransportMessageBytes = kProtocolMessageBytes + (64 << 10);

// A peer that does not answer a ping, or does not confirm what it was sent, for this long is gone.
inline constexpr int kKeepaliveTimeoutMs = 5'000;
// Both sides of a new connection must have introduced themselves within it.
inline constexpr int kHandshakeTimeoutMs = 5'000;
// Calls under way on one connection; further ones wait at the client.
inline constexpr int kMaxStreams = 64;
// Of one call's headers.
inline constexpr int kMaxMetadataBytes = 16 << 10;

// Large flow-control windows without gRPC's bandwidth probe, no kernel zerocopy, keepalive that
// accepts the pings our clients send, and no port sharing. Messages, metadata, streams and the time
// of a handshake are bounded as above, and compressed messages, which may be bombs, are refused.
void SetServerArguments(grpc::ServerBuilder& builder);

// Calls under way on a connection that has grown too old may take so long to finish; longer than
// any call but step streams, which clients open again.
inline constexpr int kConnectionGraceMs = 600'000;

// Lets clients renew connections older than `age`. Not for in-process channels: they have but one.
void SetMaxConnectionAge(grpc::ServerBuilder& builder, absl::Duration age);

// The client's side of the same, with a connection of its own per channel.
grpc::ChannelArguments ServiceChannelArguments();

// Opens a channel to an address; safe from any thread. The embedded cluster passes its own.
using ServiceChannelFactory =
    std::function<absl::StatusOr<std::shared_ptr<grpc::Channel>>(const std::string& address)>;

// Channels over TCP or unix sockets, encrypted with the certificates of `tls`. Without it (null)
// plaintext, which to another machine is FailedPrecondition unless `insecure`. No proxy of the
// environment is used for addresses of this machine.
ServiceChannelFactory NetworkServiceChannels(bool insecure,
                                             const std::shared_ptr<const TlsStore>& tls);

// Whether a server may listen on `address` in plaintext: only where nobody else can connect, unless
// `insecure`. Errors: FailedPrecondition explaining the choice.
absl::Status CheckPlaintext(const ListenAddress& address, bool insecure);

}  // namespace dslide
