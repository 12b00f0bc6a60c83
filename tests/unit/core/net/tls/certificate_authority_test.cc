#include "core/net/tls/certificate_authority.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "core/net/tls/openssl_types.h"
#include "core/net/tls/tls_store.h"
#include "tests/unit/core/net/tls/test_certificates.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;

CertificatePtr ParsePem(const std::string& pem) {
  const BioPtr bio = ReadOnlyBio(pem);
  return CertificatePtr(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
}

// What `openssl x509 -text` shows.
std::string Description(const IssuedCertificate& issued) {
  const CertificatePtr certificate = ParsePem(issued.certificate);
  const BioPtr bio(BIO_new(BIO_s_mem()));
  X509_print(bio.get(), certificate.get());
  return TextOf(bio.get());
}

// Whether a peer that trusts `ca` alone accepts the certificate for `purpose`.
bool Accepted(const IssuedCertificate& issued, const std::string& ca, int purpose) {
  const std::unique_ptr<X509_STORE, OpensslDeleter<X509_STORE_free>> store(X509_STORE_new());
  const CertificatePtr authority = ParsePem(ca);
  const CertificatePtr certificate = ParsePem(issued.certificate);
  X509_STORE_add_cert(store.get(), authority.get());
  const std::unique_ptr<X509_STORE_CTX, OpensslDeleter<X509_STORE_CTX_free>> context(
      X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), certificate.get(), nullptr);
  X509_STORE_CTX_set_purpose(context.get(), purpose);
  return X509_verify_cert(context.get()) == 1;
}

TEST(CertificateAuthorityTest, AServersCertificateNamesItsHostsAndItself) {
  const TestAuthority authority;
  CertificateSpec spec = SpecOf("shard");
  spec.hosts = {"shard-0.shards", "10.0.0.7", "::1"};
  const IssuedCertificate issued = authority.Issue(spec);
  const std::string text = Description(issued);
  for (const char* part :
       {"URI:dslide://dslide/shard", "DNS:shard-0.shards", "IP Address:10.0.0.7",
        "IP Address:0:0:0:0:0:0:0:1", "NIST CURVE: P-256", "CA:FALSE", "CN=test shard"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_TRUE(Accepted(issued, authority.ca(), X509_PURPOSE_SSL_SERVER));
  EXPECT_TRUE(Accepted(issued, authority.ca(), X509_PURPOSE_SSL_CLIENT));
}

TEST(CertificateAuthorityTest, AHolderWithoutHostsIsNoServer) {
  const TestAuthority authority;
  CertificateSpec spec = SpecOf("trainer");
  spec.hosts.clear();
  const IssuedCertificate issued = authority.Issue(spec);
  EXPECT_FALSE(Accepted(issued, authority.ca(), X509_PURPOSE_SSL_SERVER));
  EXPECT_TRUE(Accepted(issued, authority.ca(), X509_PURPOSE_SSL_CLIENT));
}

TEST(CertificateAuthorityTest, AnotherAuthorityDoesNotVouch) {
  const TestAuthority authority;
  const TestAuthority foreign;
  EXPECT_FALSE(Accepted(foreign.Issue(SpecOf("shard")), authority.ca(), X509_PURPOSE_SSL_CLIENT));
}

TEST(CertificateAuthorityTest, SerialNumbersAndKeysDiffer) {
  const TestAuthority authority;
  const IssuedCertificate a = authority.Issue(SpecOf("shard"));
  const IssuedCertificate b = authority.Issue(SpecOf("shard"));
  EXPECT_NE(a.key, b.key);
  EXPECT_NE(ASN1_INTEGER_cmp(X509_get_serialNumber(ParsePem(a.certificate).get()),
                             X509_get_serialNumber(ParsePem(b.certificate).get())),
            0);
}

TEST(CertificateAuthorityTest, NamesThatWouldBecomeOtherExtensionsAreRefused) {
  const auto authority =
      CertificateAuthority::Create("x", absl::Now(), absl::Now() + absl::Hours(1));
  ASSERT_TRUE(authority.ok());
  for (const std::string host : {"", "a,URI:dslide://dslide/operator", "a b", "a\nb", "@section"}) {
    CertificateSpec spec = SpecOf("shard");
    spec.hosts = {host};
    EXPECT_EQ((*authority)->Issue(spec).status().code(), absl::StatusCode::kInvalidArgument)
        << host;
  }
  CertificateSpec spec = SpecOf("shard");
  spec.uris = {"dslide://a,DNS:b/shard"};
  EXPECT_EQ((*authority)->Issue(spec).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CertificateAuthorityTest, ATimeThatEndsBeforeItBeginsIsRefused) {
  const absl::Time now = absl::Now();
  EXPECT_EQ(CertificateAuthority::Create("x", now, now).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CertificateAuthorityTest, OneThatIsOpenedIssuesAsTheOneThatWasMade) {
  const TestDirectory directory;
  const TestAuthority made;
  const auto opened = CertificateAuthority::Open({made.ca(), made.key()});
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->own().certificate, made.ca());
  const auto issued = (*opened)->Issue(SpecOf("trainer"));
  ASSERT_TRUE(issued.ok()) << issued.status();
  const TlsFiles files = {.cert = directory.Write("a.crt", issued->certificate),
                          .key = directory.Write("a.key", issued->key),
                          .ca = directory.Write("a.ca", made.ca())};
  EXPECT_TRUE(TlsStore::Open(files, absl::Hours(1)).ok());
}

TEST(CertificateAuthorityTest, WhatIsNoAuthorityIsNotOpened) {
  const TestAuthority one;
  const TestAuthority two;
  const IssuedCertificate leaf = one.Issue(SpecOf("trainer"));
  for (const auto& [own, said] : std::vector<std::pair<IssuedCertificate, std::string>>{
           {{"", one.key()}, "certificate is no PEM"},
           {{one.ca(), "nonsense"}, "key is no PEM"},
           {{one.ca(), two.key()}, "does not belong"},
           {leaf, "no authority's"},
       }) {
    const absl::Status refused = CertificateAuthority::Open(own).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(said));
  }
}

}  // namespace
}  // namespace dslide
