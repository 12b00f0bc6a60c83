#include "services/common/server/admin_page.h"

#include <utility>

#include "core/base/status_macros.h"

namespace dslide {

AdminPage::AdminPage(Metrics& metrics)
    : ready_gauge_(metrics.AddGauge(
          "dslide_server_ready", "1 when the server takes requests, as /readyz says; else 0.")) {}

absl::StatusOr<std::unique_ptr<AdminPage>> AdminPage::Open(const std::string& binary,
                                                           const std::string& address,
                                                           Metrics& metrics) {
  std::unique_ptr<AdminPage> page(new AdminPage(metrics));
  if (address.empty()) return page;
  ASSIGN_OR_RETURN(
      page->server_,
      AdminHttpServer::Start({.address = address,
                              .title = binary,
                              .metrics = {&metrics},
                              .readiness = [page = page.get()] { return page->CurrentReadiness(); },
                              .status = [page = page.get()] { return page->CurrentStatus(); }}));
  return page;
}

void AdminPage::SetReadiness(Readiness readiness) {
  const absl::MutexLock lock(&mu_);
  readiness_ = std::move(readiness);
  reason_ = nullptr;
  ready_gauge_.Set(readiness_.ready ? 1 : 0);
}

void AdminPage::SetReason(std::function<std::string()> reason) {
  const absl::MutexLock lock(&mu_);
  reason_ = std::move(reason);
}

void AdminPage::SetStatus(std::function<StatusPage()> status) {
  const absl::MutexLock lock(&mu_);
  status_ = std::move(status);
}

std::string AdminPage::address() const {
  return server_ == nullptr ? std::string() : server_->address();
}

Readiness AdminPage::CurrentReadiness() const {
  const absl::MutexLock lock(&mu_);
  if (reason_ != nullptr) return {readiness_.ready, reason_()};
  return readiness_;
}

StatusPage AdminPage::CurrentStatus() const {
  std::function<StatusPage()> status;
  {
    const absl::MutexLock lock(&mu_);
    status = status_;
  }
  return status == nullptr ? StatusPage() : status();
}

}  // namespace dslide
