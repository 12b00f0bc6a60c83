#include "core/net/tls/tls_files.h"

#include <openssl/pem.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"
#include "core/net/tls/openssl_types.h"
#include "core/net/tls/revocation_lists.h"

namespace dslide {
namespace {

// A bundle of all public authorities is 200 KB.
constexpr size_t kMaxFileBytes = size_t{4} << 20;

// One file and what to call it: "the private key /x/tls.key (--tls-key)".
struct NamedFile {
  const char* what;
  const char* flag;
  std::string path;

  std::string ToString() const { return absl::StrCat("the ", what, " ", path, " (", flag, ")"); }
};

absl::StatusOr<std::string> ReadPem(const NamedFile& named) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(named.path.c_str(), "rb"),
                                                             &std::fclose);
  std::string text;
  char buffer[4096];
  while (file != nullptr && text.size() <= kMaxFileBytes) {
    const size_t count = std::fread(buffer, 1, sizeof(buffer), file.get());
    text.append(buffer, count);
    if (count < sizeof(buffer)) break;
  }
  if (file == nullptr || std::ferror(file.get()) != 0) {
    const int error = errno;
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot read ", named.ToString(), ": ", std::strerror(error),
        error == EACCES ? "; let the user of this process read it"
                        : "; name the right file, or make one with: dslide certs dev"));
  }
  if (text.size() > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(named.ToString(), " is larger than ",
                                                   kMaxFileBytes >> 20, " MiB: name a PEM file"));
  }
  return text;
}

std::string Day(const ASN1_TIME* time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", ToTime(time), absl::UTCTimeZone());
}

absl::StatusOr<std::vector<CertificatePtr>> ParseCertificates(const NamedFile& named,
                                                              const std::string& pem) {
  std::vector<CertificatePtr> certificates;
  const BioPtr bio = ReadOnlyBio(pem);
  while (X509* const parsed = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(parsed);
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string error = OpensslError();
  if (!certificates.empty() && at_end) return certificates;
  return absl::InvalidArgumentError(absl::StrCat(
      named.ToString(), at_end ? " holds no certificate" : " holds a damaged certificate",
      at_end ? "" : absl::StrCat(" (", error, ")"),
      ": it must be PEM, with -----BEGIN CERTIFICATE-----"));
}

absl::Status CheckValidNow(const NamedFile& named, const X509* certificate) {
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(named.ToString(), " expired at ",
                                                   Day(X509_get0_notAfter(certificate)),
                                                   ": put a renewed one in its place"));
  }
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) {
    return absl::InvalidArgumentError(absl::StrCat(named.ToString(), " is not valid before ",
                                                   Day(X509_get0_notBefore(certificate)),
                                                   ": wait, or set this machine's clock right"));
  }
  return absl::OkStatus();
}

// Without it OpenSSL would ask the terminal for a password.
int NoPassword(char*, int, int, void*) { return -1; }

absl::StatusOr<PrivateKeyPtr> ParseKey(const NamedFile& named, const std::string& pem) {
  const BioPtr bio = ReadOnlyBio(pem);
  PrivateKeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, &NoPassword, nullptr));
  const std::string error = OpensslError();
  if (key != nullptr) return key;
  return absl::InvalidArgumentError(
      absl::StrCat(named.ToString(), " is no private key in PEM, or is encrypted (", error,
                   "): give an unencrypted one with -----BEGIN PRIVATE KEY-----"));
}

void WarnOfReaders(const NamedFile& key, TlsMaterial* material) {
  struct stat status {};
  if (::stat(key.path.c_str(), &status) != 0 || (status.st_mode & S_IROTH) == 0) return;
  material->warnings.push_back(absl::StrCat(
      key.ToString(), " can be read by every user of this machine: chmod 600 ", key.path));
}

absl::Status LoadIdentity(const TlsFiles& files, TlsMaterial* material) {
  const NamedFile cert_file{"certificate", "--tls-cert", files.cert};
  const NamedFile key_file{"private key", "--tls-key", files.key};
  ASSIGN_OR_RETURN(const std::string cert_pem, ReadPem(cert_file));
  ASSIGN_OR_RETURN(const std::string key_pem, ReadPem(key_file));
  ASSIGN_OR_RETURN(const auto chain, ParseCertificates(cert_file, cert_pem));
  ASSIGN_OR_RETURN(const PrivateKeyPtr key, ParseKey(key_file, key_pem));
  for (const CertificatePtr& certificate : chain) {
    RETURN_IF_ERROR(CheckValidNow(cert_file, certificate.get()));
    material->expires = std::min(material->expires, ToTime(X509_get0_notAfter(certificate.get())));
  }
  if (X509_check_private_key(chain.front().get(), key.get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError(absl::StrCat(key_file.ToString(), " does not belong to ",
                                                   cert_file.ToString(),
                                                   ": give the key that it was issued for"));
  }
  WarnOfReaders(key_file, material);
  material->identity_pem = absl::StrCat(key_pem, "\n", cert_pem);
  return absl::OkStatus();
}

absl::Status LoadAuthorities(const TlsFiles& files, TlsMaterial* material) {
  const NamedFile named{"authorities' file", "--tls-ca", files.ca};
  ASSIGN_OR_RETURN(material->ca_pem, ReadPem(named));
  ASSIGN_OR_RETURN(const auto authorities, ParseCertificates(named, material->ca_pem));
  absl::Status valid;
  for (const CertificatePtr& authority : authorities) {
    valid = CheckValidNow(named, authority.get());
    if (valid.ok()) return valid;  // an old one beside its successor is how they are renewed
  }
  return valid;
}

}  // namespace

absl::Status CheckTlsFileNames(const TlsFiles& files) {
  if (!files.crl_dir.empty() && files.ca.empty()) {
    return absl::InvalidArgumentError(
        "--tls-crl-dir without --tls-ca: name the authorities whose lists those are");
  }
  if (files.cert.empty() == files.key.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      files.cert.empty() ? "--tls-key without --tls-cert: name the certificate of that key too"
                         : "--tls-cert without --tls-key: name the private key of that "
                           "certificate too");
}

absl::StatusOr<TlsMaterial> LoadTlsMaterial(const TlsFiles& files) {
  RETURN_IF_ERROR(CheckTlsFileNames(files));
  TlsMaterial material;
  if (files.has_identity()) RETURN_IF_ERROR(LoadIdentity(files, &material));
  if (!files.ca.empty()) RETURN_IF_ERROR(LoadAuthorities(files, &material));
  if (!files.crl_dir.empty()) {
    ASSIGN_OR_RETURN(const std::vector<std::string> warnings,
                     CheckRevocationLists(files.crl_dir, material.ca_pem));
    material.warnings.insert(material.warnings.end(), warnings.begin(), warnings.end());
  }
  return material;
}

}  // namespace dslide
