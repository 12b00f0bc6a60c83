// A certificate authority for development, and a certificate for each role of a cluster.

#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/net/tls/certificate_roles.h"

namespace dslide::cli {

struct DevelopmentCertificates {
  // Where the files go; made when absent.
  std::string directory = {};
  // Names dslide://<cluster>/<role> go into the certificates.
  std::string cluster = "dslide";
  // DNS names and IP addresses under which servers are reached, beside those of loopback.
  std::vector<std::string> hosts = {};
  // For each a trainer's certificate more, trainer-JOB.crt, that is good for this job alone.
  std::vector<std::string> jobs = {};
  int64_t days = 30;
  // Replaces files that are there.
  bool overwrite = false;
};

// One certificate more, of an authority that is there.
struct FurtherCertificate {
  // Holds ca.crt and ca.key; the new files go there, too.
  std::string directory = {};
  std::string cluster = "dslide";
  // Name of its holder and of the files; "": the role's, and that of the first job.
  std::string name = {};
  Role role = Role::kTrainer;
  // Of a trainer: those that it is good for; none: all.
  std::vector<std::string> jobs = {};
  // As above; of shards and coordinators. Of a reader that serves predictions: its names, and no
  // others; none: it is a client alone.
  std::vector<std::string> hosts = {};
  int64_t days = 30;
  bool overwrite = false;
};

// Writes ca.crt, ca.key and, for each role and job, ROLE.crt and ROLE.key. Keys are P-256; all
// files are readable by their owner only. Certificates are valid from five minutes before `now`,
// for machines whose clocks differ. Returns the names of the files, in the order of their making.
// Errors: InvalidArgument for a wrong host, cluster, job or number of days; AlreadyExists when a
// file is there and `overwrite` is not set, before anything is written; PermissionDenied when it
// cannot be written.
absl::StatusOr<std::vector<std::string>> WriteDevelopmentCertificates(
    const DevelopmentCertificates& wanted, absl::Time now);

// Writes NAME.crt and NAME.key as above. Errors: as above, and NotFound for an authority that is
// not there; InvalidArgument also for jobs of another role than trainer, and for files that are no
// authority's.
absl::StatusOr<std::vector<std::string>> IssueFurtherCertificate(const FurtherCertificate& wanted,
                                                                 absl::Time now);

// Revokes one of them, or whatever else the authority in `directory` (ca.crt, ca.key) has issued:
// the next list goes to `directory`/crl, which is made when absent, readable by everybody. Returns
// the list's path.
// Errors: NotFound for a file that is not there; those of NextRevocationList; PermissionDenied.
absl::StatusOr<std::string> RevokeCertificate(const std::string& directory,
                                              const std::string& certificate_path, absl::Time now);

}  // namespace dslide::cli
