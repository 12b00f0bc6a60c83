#include "core/net/tls/revocation_lists.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"
#include "core/net/tls/openssl_types.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

using CrlPtr = std::unique_ptr<X509_CRL, OpensslDeleter<X509_CRL_free>>;
using RevokedPtr = std::unique_ptr<X509_REVOKED, OpensslDeleter<X509_REVOKED_free>>;
using TimePtr = std::unique_ptr<ASN1_TIME, OpensslDeleter<ASN1_TIME_free>>;
using IntegerPtr = std::unique_ptr<ASN1_INTEGER, OpensslDeleter<ASN1_INTEGER_free>>;

// For machines whose clocks differ: a list of the future would count for nobody.
constexpr absl::Duration kClockDifference = absl::Minutes(5);

struct ListFile {
  fs::path path;
  CrlPtr list;
};

std::string HashOf(const X509* authority) {
  // NOLINTNEXTLINE(google-runtime-int): OpenSSL's type
  const unsigned long hash =
      X509_NAME_hash_ex(X509_get_subject_name(authority), nullptr, nullptr, nullptr);
  return absl::StrFormat("%08x", hash);
}

// HASH.rN
bool IsListName(absl::string_view name) {
  const size_t dot = name.find(".r");
  if (dot != 8 || name.size() == dot + 2) return false;
  return std::all_of(name.begin() + dot + 2, name.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

absl::StatusOr<CrlPtr> ReadList(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  const std::string pem = text.str();
  CrlPtr list(PEM_read_bio_X509_CRL(ReadOnlyBio(pem).get(), nullptr, nullptr, nullptr));
  const std::string error = OpensslError();
  if (list != nullptr) return list;
  return absl::InvalidArgumentError(
      absl::StrCat(path.string(), " (--tls-crl-dir) is no list of revoked certificates in PEM (",
                   error, "): remove it, or put a whole one in its place"));
}

// OpenSSL counts from HASH.r0 to the first number that is not there, and sees nothing beyond it.
absl::Status CheckNumbers(const std::vector<ListFile>& lists) {
  std::set<std::string> names;
  for (const ListFile& file : lists) names.insert(file.path.filename().string());
  for (const ListFile& file : lists) {
    const std::string name = file.path.filename().string();
    const size_t digits = name.rfind('r') + 1;
    int64_t number = 0;
    const bool counts = absl::SimpleAtoi(name.substr(digits), &number);
    const std::string before = absl::StrCat(name.substr(0, digits), number - 1);
    if (counts && name == absl::StrCat(name.substr(0, digits), number) &&
        (number == 0 || names.contains(before))) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        file.path.string(), " (--tls-crl-dir) would not be found: the lists of an authority are ",
        name.substr(0, digits), "0, ", name.substr(0, digits),
        "1 and so on without a gap; put the missing one back, or number them anew"));
  }
  return absl::OkStatus();
}

// In the order of their names.
absl::StatusOr<std::vector<ListFile>> ReadLists(const std::string& directory) {
  std::vector<ListFile> lists;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (!IsListName(entry.path().filename().string())) continue;
    ASSIGN_OR_RETURN(CrlPtr list, ReadList(entry.path()));
    lists.push_back({entry.path(), std::move(list)});
  }
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read the directory ", directory,
                                                   " (--tls-crl-dir): ", error.message()));
  }
  std::sort(lists.begin(), lists.end(),
            [](const ListFile& a, const ListFile& b) { return a.path < b.path; });
  RETURN_IF_ERROR(CheckNumbers(lists));
  return lists;
}

absl::StatusOr<CertificatePtr> ParseCertificate(const char* what, const std::string& pem) {
  CertificatePtr certificate(PEM_read_bio_X509(ReadOnlyBio(pem).get(), nullptr, nullptr, nullptr));
  const std::string error = OpensslError();
  if (certificate != nullptr) return certificate;
  return absl::InvalidArgumentError(absl::StrCat(what, " is no certificate in PEM: ", error));
}

// The list that counts of that authority; null when there is none. count: of all its lists.
const ListFile* Newest(const std::vector<ListFile>& lists, const std::string& hash, int* count) {
  const ListFile* newest = nullptr;
  *count = 0;
  for (const ListFile& file : lists) {
    if (!absl::StartsWith(file.path.filename().string(), hash)) continue;
    ++*count;
    if (newest == nullptr || ToTime(X509_CRL_get0_lastUpdate(file.list.get())) >
                                 ToTime(X509_CRL_get0_lastUpdate(newest->list.get()))) {
      newest = &file;
    }
  }
  return newest;
}

// When it was made and until when it is good.
absl::Status SetTimes(X509_CRL* list, absl::Time made, const X509* authority) {
  const TimePtr from(ASN1_TIME_set(nullptr, absl::ToTimeT(made)));
  if (from == nullptr || X509_CRL_set1_lastUpdate(list, from.get()) != 1 ||
      X509_CRL_set1_nextUpdate(list, X509_get0_notAfter(authority)) != 1) {
    return OpensslFailure("date a list of revoked certificates");
  }
  return absl::OkStatus();
}

absl::Status Add(X509_CRL* list, X509* certificate, absl::Time when) {
  RevokedPtr revoked(X509_REVOKED_new());
  const TimePtr time(ASN1_TIME_set(nullptr, absl::ToTimeT(when)));
  if (revoked == nullptr || time == nullptr ||
      X509_REVOKED_set_serialNumber(revoked.get(), X509_get_serialNumber(certificate)) != 1 ||
      X509_REVOKED_set_revocationDate(revoked.get(), time.get()) != 1 ||
      X509_CRL_add0_revoked(list, revoked.get()) != 1) {
    return OpensslFailure("add to a list of revoked certificates");
  }
  (void)revoked.release();  // the list's now
  return absl::OkStatus();
}

absl::Status AddAll(X509_CRL* list, const ListFile* before) {
  if (before == nullptr) return absl::OkStatus();
  STACK_OF(X509_REVOKED)* const entries = X509_CRL_get_REVOKED(before->list.get());
  for (int i = 0; i < sk_X509_REVOKED_num(entries); ++i) {
    RevokedPtr copy(X509_REVOKED_dup(sk_X509_REVOKED_value(entries, i)));
    if (copy == nullptr || X509_CRL_add0_revoked(list, copy.get()) != 1) {
      return OpensslFailure("copy a list of revoked certificates");
    }
    (void)copy.release();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> SignList(X509_CRL* list, int number, X509* authority, EVP_PKEY* key) {
  const IntegerPtr numbered(ASN1_INTEGER_new());
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, authority, nullptr, nullptr, list, 0);
  const std::unique_ptr<X509_EXTENSION, OpensslDeleter<X509_EXTENSION_free>> identifier(
      X509V3_EXT_conf_nid(nullptr, &context, NID_authority_key_identifier, "keyid:always"));
  const BioPtr text(BIO_new(BIO_s_mem()));
  if (numbered == nullptr || ASN1_INTEGER_set(numbered.get(), number) != 1 ||
      X509_CRL_add1_ext_i2d(list, NID_crl_number, numbered.get(), 0, 0) != 1 ||
      identifier == nullptr || X509_CRL_add_ext(list, identifier.get(), -1) != 1 ||
      X509_CRL_sort(list) != 1 || X509_CRL_sign(list, key, EVP_sha256()) <= 0 ||
      PEM_write_bio_X509_CRL(text.get(), list) != 1) {
    return OpensslFailure("sign a list of revoked certificates");
  }
  return TextOf(text.get());
}

}  // namespace

absl::StatusOr<std::vector<std::string>> CheckRevocationLists(const std::string& directory,
                                                              const std::string& ca_pem) {
  ASSIGN_OR_RETURN(const std::vector<ListFile> lists, ReadLists(directory));
  std::vector<std::string> warnings;
  const BioPtr bio = ReadOnlyBio(ca_pem);
  for (;;) {
    const CertificatePtr authority(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (authority == nullptr) break;
    const std::string hash = HashOf(authority.get());
    int count = 0;
    const ListFile* const newest = Newest(lists, hash, &count);
    if (newest == nullptr) {
      warnings.push_back(absl::StrCat("--tls-crl-dir ", directory, " has no list ", hash,
                                      ".r0 of an authority in --tls-ca: what that has revoked is "
                                      "accepted until there is one"));
    } else if (X509_cmp_current_time(X509_CRL_get0_nextUpdate(newest->list.get())) < 0) {
      warnings.push_back(
          absl::StrCat(newest->path.string(),
                       " is over its time: no certificate of its authority is accepted "
                       "until there is a newer list"));
    }
  }
  ERR_clear_error();
  return warnings;
}

absl::StatusOr<RevocationList> NextRevocationList(const std::string& directory,
                                                  const std::string& authority_pem,
                                                  const std::string& authority_key_pem,
                                                  const std::string& certificate_pem,
                                                  absl::Time now) {
  ASSIGN_OR_RETURN(const CertificatePtr authority,
                   ParseCertificate("the authority", authority_pem));
  ASSIGN_OR_RETURN(const CertificatePtr certificate,
                   ParseCertificate("what is to be revoked", certificate_pem));
  const PrivateKeyPtr key(
      PEM_read_bio_PrivateKey(ReadOnlyBio(authority_key_pem).get(), nullptr, nullptr, nullptr));
  if (key == nullptr || X509_check_private_key(authority.get(), key.get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError("the key is not that of the authority's certificate");
  }
  if (X509_check_issued(authority.get(), certificate.get()) != X509_V_OK) {
    return absl::InvalidArgumentError(
        "the certificate is of another authority: name one that this authority has issued");
  }
  ASSIGN_OR_RETURN(const std::vector<ListFile> lists, ReadLists(directory));
  const std::string hash = HashOf(authority.get());
  int count = 0;
  const ListFile* const before = Newest(lists, hash, &count);
  X509_REVOKED* found = nullptr;
  if (before != nullptr && X509_CRL_get0_by_serial(before->list.get(), &found,
                                                   X509_get_serialNumber(certificate.get())) == 1) {
    return absl::AlreadyExistsError("the certificate is revoked already");
  }
  // Of two lists of one second nobody could say which is the newer one.
  absl::Time made = now - kClockDifference;
  if (before != nullptr) {
    made = std::max(made, ToTime(X509_CRL_get0_lastUpdate(before->list.get())) + absl::Seconds(1));
  }
  const CrlPtr list(X509_CRL_new());
  if (list == nullptr || X509_CRL_set_version(list.get(), X509_CRL_VERSION_2) != 1 ||
      X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(authority.get())) != 1) {
    return OpensslFailure("make a list of revoked certificates");
  }
  RETURN_IF_ERROR(SetTimes(list.get(), made, authority.get()));
  RETURN_IF_ERROR(AddAll(list.get(), before));
  RETURN_IF_ERROR(Add(list.get(), certificate.get(), now));
  ASSIGN_OR_RETURN(std::string pem, SignList(list.get(), count + 1, authority.get(), key.get()));
  return RevocationList{.name = absl::StrCat(hash, ".r", count), .pem = std::move(pem)};
}

}  // namespace dslide
