// Holds trainers to the jobs in their certificates.

#pragma once

#include <grpcpp/server_context.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/net/metrics/metrics.h"

namespace dslide {

// The jobs that a peer may work for.
class PeerJobs {
 public:
  // Every job.
  PeerJobs() = default;
  // By the URI names of the peer's certificate: those that they name, or every job when they name
  // none (core/net/tls/certificate_jobs.h).
  PeerJobs(absl::Span<const absl::string_view> uris, absl::string_view cluster);

  // False: every job is allowed.
  bool bound() const { return jobs_.has_value(); }
  bool Allows(absl::string_view job) const;
  // For people: "run-1 or run-2", "every job"; at most ten names, printable.
  std::string ToString() const;

 private:
  std::optional<std::vector<std::string>> jobs_;
};

// Thread safety: safe from any thread.
class JobGuard {
 public:
  // `cluster`: of the certificates' URI names; "" where those say nothing about what their holder
  // may do: then nobody is bound. Refusals are counted in `metrics`.
  JobGuard(std::string cluster, Metrics& metrics);

  // What the caller's certificate says; every job for a caller that shows none.
  PeerJobs JobsOf(const grpc::ServerContextBase& context) const;

  // Errors: PermissionDenied JOB_NOT_ALLOWED naming the job and those that are allowed.
  absl::Status Check(const PeerJobs& allowed, absl::string_view job) const;

  // For what is done to a model in no job's name. working: the jobs that are known to work on it.
  // Refuses a caller that is bound to other jobs than all of these, and is no operator.
  // Errors: PermissionDenied JOB_NOT_ALLOWED naming the model and its jobs.
  absl::Status CheckModel(const grpc::ServerContextBase& context, absl::string_view model,
                          absl::Span<const std::string> working) const;

 private:
  const std::string cluster_;
  const Counter denied_;
};

}  // namespace dslide
