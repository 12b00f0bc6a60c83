// A running gRPC server with everything around it that is equal for all our servers: address
// checks, limits, health, reflection, the admin page, and an orderly stop.

#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "core/net/metrics/metrics.h"
#include "core/net/tls/tls_store.h"
#include "core/system/listen_address.h"
#include "services/common/server/admin_page.h"
#include "services/common/server/limited_listener.h"
#include "services/common/server/server_security.h"
#include "services/common/signal_waiter.h"

namespace dslide {

struct ServerOptions {
  // Heads the admin page and the logs, e.g. "dslide-shard".
  std::string binary = {};
  // "host:port" (port 0: a free one), "unix:path", or "" for in-process channels only.
  std::string listen = {};
  // "host:port" of the admin page, or "" for none.
  std::string admin = {};
  // Allows plaintext where other machines can connect.
  bool insecure = false;
  // Open at one time over TCP; more are closed as soon as they come. >= 1.
  int64_t max_connections = 256;
  int64_t max_connection_rate = 20;  // a second, of one address; 0: any number
  // After this long a connection takes no new calls and the client makes another one, so that a
  // certificate that has been withdrawn or replaced does not count for ever.
  absl::Duration max_connection_age = absl::Minutes(20);
  // Without files: plaintext.
  TlsSettings tls = {};
  // The certificates of `tls`, opened; null: Start() opens them.
  std::shared_ptr<TlsStore> tls_store = nullptr;
  // Offers gRPC server reflection.
  bool reflection = true;
  // How long calls in flight may take to finish when the server stops.
  absl::Duration drain_timeout = absl::Seconds(5);
  // Pause between "not ready" and refusing calls, for load balancers to notice.
  absl::Duration drain_delay = absl::ZeroDuration();
};

// What Start() would refuse before it touches a socket or a certificate: malformed addresses,
// plaintext that others could reach, settings that do not fit together. For --check-config. Errors:
// InvalidArgument, FailedPrecondition.
absl::Status CheckServerOptions(const ServerOptions& options);

// A service and its full proto name ("dslide.v1.ShardService"), under which its health is asked.
struct ServedService {
  grpc::Service* service = nullptr;
  std::string name = {};
};

struct ServerHooks {
  // The server is about to stop: end long-lived streams. Called once, before calls are refused.
  std::function<void()> before_shutdown = nullptr;
  // Calls that are being worked on. With it, a stop ends connections over which nobody calls;
  // without it, clients that do not look at theirs hold it up for drain_timeout. From any thread.
  std::function<int64_t()> running_calls = nullptr;
  // No call is running any more: write what has to be kept. Called once.
  std::function<absl::Status()> after_shutdown = nullptr;
  // What the admin page shows to people; from any thread.
  std::function<StatusPage()> status = nullptr;
};

// Thread safety: safe from any thread.
class ServerRuntime {
 public:
  // Serves `services`, which must outlive the result, as must `metrics` (shown on the admin page
  // when there is one). The server is live but not ready until SetReady(): health says NOT_SERVING.
  // admin: one that is open already, of the same `options` and `metrics`; null: it is opened here.
  //
  // Errors: InvalidArgument for a malformed address or unknown host and for certificates that are
  // not fit for use; FailedPrecondition for
  // plaintext that others could reach; AlreadyExists when a port is taken; Unavailable when an
  // address cannot be listened on for another reason.
  static absl::StatusOr<std::unique_ptr<ServerRuntime>> Start(
      const ServerOptions& options, const std::vector<ServedService>& services, Metrics& metrics,
      ServerHooks hooks = {}, std::unique_ptr<AdminPage> admin = nullptr);

  // Drains first.
  ~ServerRuntime();

  // Where clients reach it, with the real port; "" when in-process only.
  const std::string& address() const { return address_; }
  // Of the admin page; "" when there is none.
  std::string admin_address() const;

  // A channel to this server without any socket. Draining ends its running calls at once, with
  // UNAVAILABLE: gRPC's in-process transport knows no half-closed state. So stop the callers first.
  // Errors: Unavailable once the server drains.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> InProcessChannel();

  // Opens or closes for business: /readyz and the health of "" and of every service. `reason` says
  // why not, for people. Once draining, the server stays not ready.
  void SetReady(bool ready, const std::string& reason = "");

  // Not ready; drain_delay; before_shutdown; refuses calls and waits drain_timeout for those in
  // flight; after_shutdown. Returns what the last hook did. Repeated calls return the same.
  absl::Status Drain();

 private:
  ServerRuntime(const ServerOptions& options, ServerHooks hooks);
  absl::Status StartServer(const std::vector<ServedService>& services, Metrics& metrics);
  // Listens, and tells `builder` where its connections come from. Nobody is accepted yet.
  absl::Status Listen(grpc::ServerBuilder& builder, Metrics& metrics);
  absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> Credentials(const ListenAddress& listen,
                                                                       Metrics& metrics) const;
  // Refuses calls, and returns when all have ended or drain_timeout is over.
  void ShutDown();
  // Until `ended`: hangs up on the clients as soon as no call has been running for a moment.
  void HangUpWhenQuiet(const absl::Notification& ended);

  const ServerOptions options_;             // constant after construction
  const ServerHooks hooks_;                 // constant after construction
  std::string address_;                     // constant after Start
  std::vector<std::string> service_names_;  // constant after Start
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor>
      acceptor_;                               // constant after Start
  std::unique_ptr<grpc::Server> server_;       // self-synchronised
  std::unique_ptr<LimitedListener> listener_;  // uses acceptor_; null without TCP
  std::unique_ptr<AdminPage> admin_;           // constant after Start
  absl::Mutex mu_;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  absl::Mutex drain_mu_;  // held for the whole of Drain(): a second caller waits for the first
  bool drained_ ABSL_GUARDED_BY(drain_mu_) = false;
  absl::Status drain_result_ ABSL_GUARDED_BY(drain_mu_);
};

// The rest of main(): waits for SIGTERM or SIGINT, drains, and returns the exit code: 0, or 1 when
// the last hook failed.
int ServeUntilSignal(ServerRuntime& runtime, SignalWaiter& signals);

// The exit code for a Start() that failed (exit_codes.h).
int ExitCodeOfStart(const absl::Status& status);

}  // namespace dslide
