#include "core/net/tls/certificate_authority.h"

#include <arpa/inet.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"
#include "core/net/tls/openssl_types.h"

namespace dslide {
namespace {

constexpr int kSerialBits = 127;  // positive in 16 bytes

bool IsAddress(const std::string& host) {
  in6_addr parsed{};
  return inet_pton(AF_INET, host.c_str(), &parsed) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &parsed) == 1;
}

// The text goes into OpenSSL's extension syntax, where a comma would begin another name.
bool IsPlain(absl::string_view text, absl::string_view also) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [also](unsigned char c) {
    return absl::ascii_isalnum(c) || absl::StrContains(also, static_cast<char>(c));
  });
}

absl::StatusOr<std::string> AlternativeNames(const CertificateSpec& spec) {
  std::vector<std::string> names;
  for (const std::string& uri : spec.uris) {
    if (!absl::StrContains(uri, "://") || !IsPlain(uri, ":/.-_")) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", uri, "\" is no URI such as dslide://dslide/shard"));
    }
    names.push_back(absl::StrCat("URI:", uri));
  }
  for (const std::string& host : spec.hosts) {
    if (IsAddress(host)) {
      names.push_back(absl::StrCat("IP:", host));
    } else if (IsPlain(host, ".-_*")) {
      names.push_back(absl::StrCat("DNS:", host));
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", host, "\" is neither a host name nor an IP address"));
    }
  }
  return absl::StrJoin(names, ",");
}

absl::Status AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  if (extension == nullptr) return OpensslFailure("make a certificate's extension");
  const int added = X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
  return added == 1 ? absl::OkStatus() : OpensslFailure("add a certificate's extension");
}

absl::Status SetSerial(X509* certificate) {
  const std::unique_ptr<BIGNUM, OpensslDeleter<BN_free>> number(BN_new());
  if (number == nullptr || BN_rand(number.get(), kSerialBits, BN_RAND_TOP_ANY, 0) != 1 ||
      BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) == nullptr) {
    return OpensslFailure("draw a serial number");
  }
  return absl::OkStatus();
}

// Everything but extensions and signature.
absl::StatusOr<CertificatePtr> Blank(const CertificateSpec& spec, EVP_PKEY* key) {
  if (spec.not_before >= spec.not_after) {
    return absl::InvalidArgumentError(
        absl::StrCat("the certificate of ", spec.common_name, " would be valid at no time: from ",
                     absl::FormatTime(spec.not_before), " to ", absl::FormatTime(spec.not_after)));
  }
  CertificatePtr certificate(X509_new());
  if (certificate == nullptr || X509_set_version(certificate.get(), X509_VERSION_3) != 1 ||
      X509_set_pubkey(certificate.get(), key) != 1 ||
      ASN1_TIME_set(X509_getm_notBefore(certificate.get()), absl::ToTimeT(spec.not_before)) ==
          nullptr ||
      ASN1_TIME_set(X509_getm_notAfter(certificate.get()), absl::ToTimeT(spec.not_after)) ==
          nullptr ||
      X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(spec.common_name.data()),
                                 static_cast<int>(spec.common_name.size()), -1, 0) != 1) {
    return OpensslFailure("fill a certificate");
  }
  RETURN_IF_ERROR(SetSerial(certificate.get()));
  return certificate;
}

absl::StatusOr<PrivateKeyPtr> NewKey() {
  PrivateKeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpensslFailure("make a P-256 key");
  return key;
}

absl::StatusOr<IssuedCertificate> ToPem(X509* certificate, EVP_PKEY* key) {
  const BioPtr certificate_bio(BIO_new(BIO_s_mem()));
  const BioPtr key_bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(certificate_bio.get(), certificate) != 1 ||
      PEM_write_bio_PrivateKey(key_bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return OpensslFailure("write a certificate");
  }
  return IssuedCertificate{TextOf(certificate_bio.get()), TextOf(key_bio.get())};
}

absl::Status Sign(X509* certificate, X509* issuer, EVP_PKEY* issuer_key) {
  if (X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) != 1) {
    return OpensslFailure("name a certificate's issuer");
  }
  // The identifier of the issuer's key is read from the issuer, so extensions come after it.
  RETURN_IF_ERROR(AddExtension(certificate, issuer, NID_subject_key_identifier, "hash"));
  RETURN_IF_ERROR(AddExtension(certificate, issuer, NID_authority_key_identifier, "keyid:always"));
  return X509_sign(certificate, issuer_key, EVP_sha256()) > 0
             ? absl::OkStatus()
             : OpensslFailure("sign a certificate");
}

}  // namespace

struct CertificateAuthority::Impl {
  CertificatePtr certificate;
  PrivateKeyPtr key;
};

CertificateAuthority::CertificateAuthority() : impl_(std::make_unique<Impl>()) {}
CertificateAuthority::~CertificateAuthority() = default;

absl::StatusOr<std::unique_ptr<CertificateAuthority>> CertificateAuthority::Create(
    const std::string& common_name, absl::Time not_before, absl::Time not_after) {
  std::unique_ptr<CertificateAuthority> authority(new CertificateAuthority());
  Impl& impl = *authority->impl_;
  ASSIGN_OR_RETURN(impl.key, NewKey());
  ASSIGN_OR_RETURN(
      impl.certificate,
      Blank({.common_name = common_name, .not_before = not_before, .not_after = not_after},
            impl.key.get()));
  X509* const own = impl.certificate.get();
  RETURN_IF_ERROR(AddExtension(own, own, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  RETURN_IF_ERROR(AddExtension(own, own, NID_key_usage, "critical,keyCertSign,cRLSign"));
  RETURN_IF_ERROR(Sign(own, own, impl.key.get()));
  ASSIGN_OR_RETURN(authority->own_, ToPem(own, impl.key.get()));
  return authority;
}

absl::StatusOr<std::unique_ptr<CertificateAuthority>> CertificateAuthority::Open(
    const IssuedCertificate& own) {
  std::unique_ptr<CertificateAuthority> authority(new CertificateAuthority());
  Impl& impl = *authority->impl_;
  impl.certificate.reset(
      PEM_read_bio_X509(ReadOnlyBio(own.certificate).get(), nullptr, nullptr, nullptr));
  impl.key.reset(PEM_read_bio_PrivateKey(ReadOnlyBio(own.key).get(), nullptr, nullptr, nullptr));
  const std::string error = OpensslError();
  if (impl.certificate == nullptr || impl.key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the authority's ", impl.certificate == nullptr ? "certificate" : "key",
                     " is no PEM: ", error));
  }
  const bool fits = X509_check_private_key(impl.certificate.get(), impl.key.get()) == 1;
  const bool signs = X509_check_ca(impl.certificate.get()) == 1;
  ERR_clear_error();
  if (!fits || !signs) {
    return absl::InvalidArgumentError(
        fits ? "the authority's certificate may not sign others: it is no authority's"
             : "the authority's key does not belong to its certificate");
  }
  authority->own_ = own;
  return authority;
}

absl::StatusOr<IssuedCertificate> CertificateAuthority::Issue(const CertificateSpec& spec) const {
  ASSIGN_OR_RETURN(const std::string names, AlternativeNames(spec));
  ASSIGN_OR_RETURN(const PrivateKeyPtr key, NewKey());
  ASSIGN_OR_RETURN(const CertificatePtr certificate, Blank(spec, key.get()));
  X509* const own = certificate.get();
  X509* const issuer = impl_->certificate.get();
  RETURN_IF_ERROR(AddExtension(own, issuer, NID_basic_constraints, "critical,CA:FALSE"));
  RETURN_IF_ERROR(AddExtension(own, issuer, NID_key_usage, "critical,digitalSignature"));
  RETURN_IF_ERROR(AddExtension(own, issuer, NID_ext_key_usage,
                               spec.hosts.empty() ? "clientAuth" : "serverAuth,clientAuth"));
  if (!names.empty()) {
    RETURN_IF_ERROR(AddExtension(own, issuer, NID_subject_alt_name, names));
  }
  RETURN_IF_ERROR(Sign(own, issuer, impl_->key.get()));
  return ToPem(own, key.get());
}

}  // namespace dslide
