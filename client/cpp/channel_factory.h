// Where channels come from: TCP and unix addresses, or servers inside this process.

#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/net/tls/tls_files.h"

namespace grpc {
class Channel;
class ChannelArguments;
}  // namespace grpc

namespace dslide {

// Messages are at most 4 MiB by the protocol; the margin is for the envelope around bulk fields.
inline constexpr int kMaxMessageBytes = (4 << 20) + (64 << 10);

// Makes a channel to an address. The default for every client; tests and the embedded cluster pass
// their own. Must be safe to call from any thread.
using ChannelFactory =
    std::function<absl::StatusOr<std::shared_ptr<grpc::Channel>>(const std::string& address)>;

// Whether plaintext to `address` stays on this machine: loopback addresses, names that stand for
// nothing else, and unix sockets. May ask the resolver.
bool StaysOnThisMachine(absl::string_view address);

struct ChannelOptions {
  // Plaintext to other machines is refused unless the user said so.
  bool insecure = false;
  // With any of them, connections are encrypted: the server's certificate must be of an authority
  // of `tls.ca` (without it: of the system's) and name the address; this client shows `tls.cert`.
  TlsFiles tls = {};
  absl::Duration tls_reload_interval = kDefaultTlsReloadInterval;
};

// Channels over TCP or unix sockets with the transport settings that both sides use. Connections
// are made on first use and made again after a break; new ones use renewed certificates while the
// factory lives. No proxy of the environment is used for addresses of this machine. The factory's
// errors: InvalidArgument for an empty or malformed address, when
// plaintext would leave the machine unasked, and for certificates that are not fit for use.
ChannelFactory NetworkChannels(const ChannelOptions& options);

// Keeps one share of gRPC's process-wide callback queue until the process ends. The queue goes with
// the last channel that used it, and when a callback drops that channel, the queue's own thread
// deletes it under its feet: an abort in grpc_cq_internal_unref, seen in 1.51
// (github.com/grpc/grpc/pull/32584). Every client calls this; repeated calls do nothing.
void KeepCallbackQueue();

// The transport settings of the hot path: a large flow-control window that does not wait for gRPC's
// bandwidth probe, one connection per channel, frequent reconnects, keepalive.
void SetTransportArguments(grpc::ChannelArguments& arguments);

}  // namespace dslide
