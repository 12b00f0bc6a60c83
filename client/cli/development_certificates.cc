#include "client/cli/development_certificates.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/text_file.h"
#include "core/base/status_macros.h"
#include "core/tls/certificate_authority.h"
#include "core/tls/certificate_roles.h"
#include "core/tls/revocation_lists.h"

namespace dslide::cli {
namespace {

constexpr int64_t kMaxDays = 3650;
constexpr absl::Duration kClockDifference = absl::Minutes(5);

struct File {
  std::string name;
  std::string text;
};

absl::Status Check(const DevelopmentCertificates& wanted) {
  RETURN_IF_ERROR(CheckClusterName(wanted.cluster));
  if (wanted.days >= 1 && wanted.days <= kMaxDays) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--days ", wanted.days, ": must be in [1, ", kMaxDays, "]"));
}

bool IsServer(Role role) { return role == Role::kShard || role == Role::kCoordinator; }

std::vector<std::string> ServerHosts(const DevelopmentCertificates& wanted) {
  std::vector<std::string> hosts = {"localhost", "127.0.0.1", "::1"};
  for (const std::string& host : wanted.hosts) {
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  }
  return hosts;
}

absl::StatusOr<std::vector<File>> MakeFiles(const DevelopmentCertificates& wanted, absl::Time now) {
  const absl::Time from = now - kClockDifference;
  const absl::Time to = now + absl::Hours(24) * wanted.days;
  ASSIGN_OR_RETURN(const auto authority,
                   CertificateAuthority::Create(
                       absl::StrCat("dslide development authority of ", wanted.cluster), from, to));
  std::vector<File> files = {{"ca.crt", authority->own().certificate},
                             {"ca.key", authority->own().key}};
  for (const Role role : kAllRoles) {
    CertificateSpec spec = {.common_name = absl::StrCat(wanted.cluster, " ", RoleName(role)),
                            .uris = {RoleUri(wanted.cluster, role)},
                            .not_before = from,
                            .not_after = to};
    // The others are clients: a trainer's certificate shall not pass for a shard's.
    if (IsServer(role)) spec.hosts = ServerHosts(wanted);
    ASSIGN_OR_RETURN(IssuedCertificate issued, authority->Issue(spec));
    files.push_back({absl::StrCat(RoleName(role), ".crt"), std::move(issued.certificate)});
    files.push_back({absl::StrCat(RoleName(role), ".key"), std::move(issued.key)});
  }
  return files;
}

absl::Status CannotWrite(const std::string& path) {
  return absl::PermissionDeniedError(
      absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
}

// A new file beside the old one, then a rename: never open to others, never half written.
absl::Status WriteOwnersFile(const std::string& path, const std::string& text) {
  const std::string fresh = absl::StrCat(path, ".new");
  ::unlink(fresh.c_str());
  const int fd = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return CannotWrite(fresh);
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       ::fsync(fd) == 0;
  absl::Status result;
  if (!written) result = CannotWrite(fresh);
  ::close(fd);
  if (result.ok() && ::rename(fresh.c_str(), path.c_str()) != 0) result = CannotWrite(path);
  return result;
}

absl::Status MakeDirectory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("cannot make the directory ", path, ": ", error.message()));
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
  RETURN_IF_ERROR(WriteOwnersFile(path, next.pem));
  return path;
}

absl::StatusOr<std::vector<std::string>> WriteDevelopmentCertificates(
    const DevelopmentCertificates& wanted, absl::Time now) {
  RETURN_IF_ERROR(Check(wanted));
  ASSIGN_OR_RETURN(const std::vector<File> files, MakeFiles(wanted, now));
  RETURN_IF_ERROR(MakeDirectory(wanted.directory));
  std::error_code error;
  std::vector<std::string> names;
  std::vector<std::string> present;
  for (const File& file : files) {
    names.push_back(file.name);
    if (std::filesystem::exists(std::filesystem::path(wanted.directory) / file.name, error)) {
      present.push_back(file.name);
    }
  }
  if (!present.empty() && !wanted.overwrite) {
    return absl::AlreadyExistsError(absl::StrCat(
        wanted.directory, " holds ", absl::StrJoin(present, ", "),
        " already: choose another --output, or replace them with --overwrite (every process of "
        "the cluster then needs its new files)"));
  }
  for (const File& file : files) {
    RETURN_IF_ERROR(WriteOwnersFile(absl::StrCat(wanted.directory, "/", file.name), file.text));
  }
  return names;
}

}  // namespace dslide::cli
