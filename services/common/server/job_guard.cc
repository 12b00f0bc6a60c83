#include "services/common/server/job_guard.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/reason.h"
#include "core/net/tls/certificate_jobs.h"
#include "core/protocol/access_reason_words.h"
#include "core/system/log.h"
#include "services/common/server/authorizer.h"

namespace dslide {
namespace {

constexpr size_t kShownJobs = 10;
constexpr size_t kShownName = 64;

std::string Names(absl::Span<const std::string> jobs) {
  std::vector<std::string> shown;
  for (const std::string& job : jobs.subspan(0, kShownJobs)) {
    shown.push_back(absl::StrCat("\"", EscapeForLog(job, kShownName), "\""));
  }
  if (jobs.size() > kShownJobs) {
    shown.push_back(absl::StrCat(jobs.size() - kShownJobs, " others"));
  }
  return absl::StrJoin(shown, " or ");
}

absl::Status Refusal(const std::string& text) {
  return StatusWithReason(absl::StatusCode::kPermissionDenied, reason::kJobNotAllowed,
                          absl::StrCat(text, " (see docs/operate/security.md)"));
}

}  // namespace

PeerJobs::PeerJobs(absl::Span<const absl::string_view> uris, absl::string_view cluster) {
  for (const absl::string_view uri : uris) {
    const auto job = JobOfUri(uri, cluster);
    if (!job.has_value()) continue;
    if (!jobs_.has_value()) jobs_.emplace();
    if (!job->empty()) jobs_->emplace_back(*job);
  }
}

bool PeerJobs::Allows(absl::string_view job) const {
  return !bound() || std::find(jobs_->begin(), jobs_->end(), job) != jobs_->end();
}

std::string PeerJobs::ToString() const {
  if (!bound()) return "every job";
  return jobs_->empty() ? "no job" : absl::StrCat("job ", Names(*jobs_));
}

JobGuard::JobGuard(std::string cluster, Metrics& metrics)
    : cluster_(std::move(cluster)),
      // Where nobody is bound, the page says nothing of it.
      denied_(cluster_.empty() ? Counter() : AddDeniedCalls(metrics)) {}

PeerJobs JobGuard::JobsOf(const grpc::ServerContextBase& context) const {
  if (cluster_.empty()) return {};
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  if (peer == nullptr || !peer->IsPeerAuthenticated()) return {};
  std::vector<absl::string_view> uris;
  for (const grpc::string_ref& uri : peer->FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
    uris.emplace_back(uri.data(), uri.size());
  }
  return PeerJobs(uris, cluster_);
}

absl::Status JobGuard::Check(const PeerJobs& allowed, absl::string_view job) const {
  if (allowed.Allows(job)) return absl::OkStatus();
  denied_.Increment();
  return Refusal(absl::StrCat("job \"", EscapeForLog(job, kShownName),
                              "\" is not for this certificate, which is for ", allowed.ToString(),
                              ": name a job of these, or use another certificate"));
}

absl::Status JobGuard::CheckModel(const grpc::ServerContextBase& context, absl::string_view model,
                                  absl::Span<const std::string> working) const {
  const PeerJobs allowed = JobsOf(context);
  if (!allowed.bound() || working.empty()) return absl::OkStatus();
  if (RolesOfPeer(*context.auth_context(), cluster_).Has(Role::kOperator)) return absl::OkStatus();
  for (const std::string& job : working) {
    if (allowed.Allows(job)) return absl::OkStatus();
  }
  denied_.Increment();
  return Refusal(absl::StrCat("on model \"", EscapeForLog(model, kShownName), "\" works job ",
                              Names(working), ", but this certificate is for ", allowed.ToString(),
                              ": leave it alone, or use another certificate"));
}

}  // namespace dslide
