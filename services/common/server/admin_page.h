// The admin page of a server: there before the server is, so that whoever waits for it sees why.

#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/net/http/admin_http.h"
#include "core/net/metrics/metrics.h"

namespace dslide {

// Thread safety: safe from any thread.
class AdminPage {
 public:
  // binary: heads the page. address: "host:port", or "": nothing is served, only the gauge
  // dslide_server_ready is kept. `metrics` outlives the page. Not ready until SetReadiness().
  // Errors: those of AdminHttpServer::Start().
  static absl::StatusOr<std::unique_ptr<AdminPage>> Open(const std::string& binary,
                                                         const std::string& address,
                                                         Metrics& metrics);

  void SetReadiness(Readiness readiness);
  // Asked each time from now on, in place of a fixed text. From any thread.
  void SetReason(std::function<std::string()> reason);
  // What people are shown; null: nothing but the state. From any thread.
  void SetStatus(std::function<StatusPage()> status);

  // "host:port" with the port in use; "" without a page.
  std::string address() const;

 private:
  explicit AdminPage(Metrics& metrics);
  Readiness CurrentReadiness() const;
  StatusPage CurrentStatus() const;

  mutable absl::Mutex mu_;
  Readiness readiness_ ABSL_GUARDED_BY(mu_) = {false, "starting"};
  std::function<std::string()> reason_ ABSL_GUARDED_BY(mu_);
  std::function<StatusPage()> status_ ABSL_GUARDED_BY(mu_);
  Gauge ready_gauge_;
  std::unique_ptr<AdminHttpServer> server_;  // constant after Open()
};

}  // namespace dslide
