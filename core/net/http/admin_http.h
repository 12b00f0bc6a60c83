// The admin HTTP server of a process, on a port of its own, plain text:
//
//   /metrics  Prometheus page        /livez   200 while the process answers
//   /        a page for people       /readyz  200, or 503 with the reason
//
// It shows numbers and takes no orders: GET and HEAD only.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/net/http/status_page.h"
#include "core/net/metrics/metrics.h"

namespace dslide {

class HttpServer;

struct Readiness {
  bool ready = true;
  std::string reason;  // why not, for people; empty when ready
};

struct AdminHttpOptions {
  // "host:port"; port 0 takes a free one. Hosts are addresses or names; "" is every interface.
  std::string address = {};
  // Heads the page for people, e.g. "dslide-shard".
  std::string title = {};
  // Shown on /metrics. Must outlive the server.
  std::vector<const Metrics*> metrics = {};
  // Asked on /readyz, from any thread. Null: always ready.
  std::function<Readiness()> readiness = nullptr;
  // What the page for people shows, from any thread; escaped by the server. May be null.
  std::function<StatusPage()> status = nullptr;
};

// Thread safety: safe from any thread. The destructor waits for running requests (at most 5 s
// each).
class AdminHttpServer {
 public:
  // Errors: InvalidArgument for a malformed address or unknown host; AlreadyExists when the port is
  // taken; Unavailable for another reason the address cannot be listened on.
  static absl::StatusOr<std::unique_ptr<AdminHttpServer>> Start(AdminHttpOptions options);

  ~AdminHttpServer();

  // The port in use, also when 0 was asked for.
  int port() const;
  // "host:port" with the port in use.
  std::string address() const;

 private:
  explicit AdminHttpServer(std::unique_ptr<HttpServer> server);
  const std::unique_ptr<HttpServer> server_;
};

}  // namespace dslide
