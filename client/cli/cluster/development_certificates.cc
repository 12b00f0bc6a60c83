#include "client/cli/cluster/development_certificates.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/cli/console/text_file.h"
#include "core/base/status_macros.h"
#include "core/engine/data/file_output.h"
#include "core/net/tls/certificate_authority.h"
#include "core/net/tls/certificate_jobs.h"
#include "core/net/tls/revocation_lists.h"
#include "core/system/listen_address.h"
#include "core/wire/envelope_codec.h"

namespace dslide::cli {
namespace {

constexpr int64_t kMaxDays = 3650;
constexpr size_t kMaxCommonName = 64;  // of X.509; for people, the URI names tell holders apart
constexpr absl::Duration kClockDifference = absl::Minutes(5);

struct File {
  std::string name;
  std::string text;
};

// What both kinds of wishes have in common.
absl::Status Check(const std::string& cluster, const std::vector<std::string>& jobs,
                   const std::vector<std::string>& hosts, int64_t days) {
  RETURN_IF_ERROR(CheckClusterName(cluster));
  for (const std::string& host : hosts) {
    const absl::Status possible = CheckHostName(absl::StripPrefix(host, "*."));
    if (!possible.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--host: ", possible.message()));
    }
  }
  for (const std::string& job : jobs) RETURN_IF_ERROR(wire::CheckName("--job", job));
  if (days >= 1 && days <= kMaxDays) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--days ", days, ": must be in [1, ", kMaxDays, "]"));
}

std::string NameFor(Role role, const std::vector<std::string>& jobs) {
  return jobs.empty() ? RoleName(role) : absl::StrCat(RoleName(role), "-", jobs.front());
}

bool IsServer(Role role) { return role == Role::kShard || role == Role::kCoordinator; }

std::vector<std::string> ServerHosts(const std::vector<std::string>& wanted) {
  std::vector<std::string> hosts = {"localhost", "127.0.0.1", "::1"};
  for (const std::string& host : wanted) {
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  }
  return hosts;
}

// Appends NAME.crt and NAME.key.
absl::Status IssueTo(const CertificateAuthority& authority, const FurtherCertificate& wanted,
                     absl::Time now, std::vector<File>* files) {
  const std::string holder = absl::StrCat(wanted.cluster, " ", wanted.name);
  CertificateSpec spec = {.common_name = holder.substr(0, kMaxCommonName),
                          .not_before = now - kClockDifference,
                          .not_after = now + absl::Hours(24) * wanted.days};
  for (const std::string& job : wanted.jobs) spec.uris.push_back(JobUri(wanted.cluster, job));
  if (wanted.jobs.empty()) spec.uris = {RoleUri(wanted.cluster, wanted.role)};
  // The others are clients: a trainer's certificate shall not pass for a shard's.
  if (IsServer(wanted.role)) spec.hosts = ServerHosts(wanted.hosts);
  // But for one that serves predictions, and is asked for by the name of its host.
  if (wanted.role == Role::kReader) spec.hosts = wanted.hosts;
  ASSIGN_OR_RETURN(IssuedCertificate issued, authority.Issue(spec));
  files->push_back({absl::StrCat(wanted.name, ".crt"), std::move(issued.certificate)});
  files->push_back({absl::StrCat(wanted.name, ".key"), std::move(issued.key)});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<File>> MakeFiles(const DevelopmentCertificates& wanted, absl::Time now) {
  ASSIGN_OR_RETURN(
      const auto authority,
      CertificateAuthority::Create(absl::StrCat("dslide development authority of ", wanted.cluster),
                                   now - kClockDifference, now + absl::Hours(24) * wanted.days));
  std::vector<File> files = {{"ca.crt", authority->own().certificate},
                             {"ca.key", authority->own().key}};
  FurtherCertificate next = {.cluster = wanted.cluster, .hosts = wanted.hosts, .days = wanted.days};
  for (const Role role : kAllRoles) {
    next.role = role;
    next.name = RoleName(role);
    next.hosts = IsServer(role) ? wanted.hosts : std::vector<std::string>();
    RETURN_IF_ERROR(IssueTo(*authority, next, now, &files));
  }
  next.role = Role::kTrainer;
  for (const std::string& job : wanted.jobs) {
    next.jobs = {job};
    next.name = NameFor(next.role, next.jobs);
    RETURN_IF_ERROR(IssueTo(*authority, next, now, &files));
  }
  return files;
}

absl::Status CannotWrite(const std::string& path) {
  // A write that ends early is one for which there was no space.
  return LocalFileError("write", path, errno == 0 ? ENOSPC : errno);
}

constexpr mode_t kOwnersOnly = 0600;
// What an authority has revoked is no secret, and servers run under accounts of their own.
constexpr mode_t kEverybodyReads = 0644;

// A new file beside the old one, then a rename: never open to others before, never half written.
absl::Status WriteNewFile(const std::string& path, const std::string& text, mode_t mode) {
  const std::string fresh = absl::StrCat(path, ".new");
  ::unlink(fresh.c_str());
  const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return CannotWrite(fresh);
  errno = 0;
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       ::fchmod(fd, mode) == 0 && ::fsync(fd) == 0;
  absl::Status result;
  if (!written) result = CannotWrite(fresh);
  ::close(fd);
  if (result.ok() && ::rename(fresh.c_str(), path.c_str()) != 0) result = CannotWrite(path);
  if (!result.ok()) ::unlink(fresh.c_str());
  return result;
}

absl::Status MakeDirectory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return absl::OkStatus();
  return LocalFileError("make the directory", path, error.value());
}

// Returns the names. `remedy` is for files that are there.
absl::StatusOr<std::vector<std::string>> WriteFiles(const std::string& directory,
                                                    const std::vector<File>& files, bool overwrite,
                                                    absl::string_view remedy) {
  std::error_code error;
  std::vector<std::string> names;
  std::vector<std::string> present;
  for (const File& file : files) {
    names.push_back(file.name);
    if (std::filesystem::exists(std::filesystem::path(directory) / file.name, error)) {
      present.push_back(file.name);
    }
  }
  if (!present.empty() && !overwrite) {
    return absl::AlreadyExistsError(
        absl::StrCat(directory, " holds ", absl::StrJoin(present, ", "), " already: ", remedy));
  }
  for (const File& file : files) {
    RETURN_IF_ERROR(WriteNewFile(absl::StrCat(directory, "/", file.name), file.text, kOwnersOnly));
  }
  return names;
}

}  // namespace

absl::StatusOr<std::string> RevokeCertificate(const std::string& directory,
                                              const std::string& certificate_path, absl::Time now) {
  ASSIGN_OR_RETURN(const std::string authority, ReadTextFile(absl::StrCat(directory, "/ca.crt")));
  ASSIGN_OR_RETURN(const std::string key, ReadTextFile(absl::StrCat(directory, "/ca.key")));
  ASSIGN_OR_RETURN(const std::string certificate, ReadTextFile(certificate_path));
  const std::string lists = absl::StrCat(directory, "/crl");
  RETURN_IF_ERROR(MakeDirectory(lists));
  ASSIGN_OR_RETURN(const RevocationList next,
                   NextRevocationList(lists, authority, key, certificate, now));
  std::string path = absl::StrCat(lists, "/", next.name);
  RETURN_IF_ERROR(WriteNewFile(path, next.pem, kEverybodyReads));
  return path;
}

absl::StatusOr<std::vector<std::string>> WriteDevelopmentCertificates(
    const DevelopmentCertificates& wanted, absl::Time now) {
  RETURN_IF_ERROR(Check(wanted.cluster, wanted.jobs, wanted.hosts, wanted.days));
  ASSIGN_OR_RETURN(const std::vector<File> files, MakeFiles(wanted, now));
  RETURN_IF_ERROR(MakeDirectory(wanted.directory));
  return WriteFiles(wanted.directory, files, wanted.overwrite,
                    "choose another --output, or replace them with --overwrite (every process of "
                    "the cluster then needs its new files)");
}

absl::StatusOr<std::vector<std::string>> IssueFurtherCertificate(const FurtherCertificate& wanted,
                                                                 absl::Time now) {
  RETURN_IF_ERROR(Check(wanted.cluster, wanted.jobs, wanted.hosts, wanted.days));
  if (wanted.role != Role::kTrainer && !wanted.jobs.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--job with --role ", RoleName(wanted.role), ": only trainers work for jobs"));
  }
  FurtherCertificate named = wanted;
  if (named.name.empty()) {
    named.name = NameFor(wanted.role, wanted.jobs);
  } else {
    RETURN_IF_ERROR(wire::CheckName("--name", named.name));
  }
  if (named.name == "ca") {
    return absl::InvalidArgumentError("--name ca: those are the authority's own files");
  }
  IssuedCertificate own;
  ASSIGN_OR_RETURN(own.certificate, ReadTextFile(absl::StrCat(wanted.directory, "/ca.crt")));
  ASSIGN_OR_RETURN(own.key, ReadTextFile(absl::StrCat(wanted.directory, "/ca.key")));
  ASSIGN_OR_RETURN(const auto authority, CertificateAuthority::Open(own));
  std::vector<File> files;
  RETURN_IF_ERROR(IssueTo(*authority, named, now, &files));
  return WriteFiles(wanted.directory, files, wanted.overwrite,
                    "choose another --name, or replace them with --overwrite");
}

}  // namespace dslide::cli
