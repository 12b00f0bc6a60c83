#include "core/net/tls/tls_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>

#include "core/net/tls/openssl_types.h"
#include "tests/unit/core/net/tls/test_certificates.h"

namespace dslide {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TlsFilesTest : public ::testing::Test {
 protected:
  // The message of the refusal.
  static std::string Refusal(const TlsFiles& files) {
    const absl::StatusOr<TlsMaterial> loaded = LoadTlsMaterial(files);
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(loaded.status().message());
  }

  TestDirectory directory_;
  TestAuthority authority_;
};

TEST_F(TlsFilesTest, AGoodSetIsLoadedWithItsEnd) {
  CertificateSpec spec = SpecOf("shard");
  const auto material = LoadTlsMaterial(authority_.Write(directory_, "good", spec));
  ASSERT_TRUE(material.ok()) << material.status();
  EXPECT_THAT(material->identity_pem,
              AllOf(HasSubstr("BEGIN PRIVATE KEY"), HasSubstr("BEGIN CERTIFICATE")));
  EXPECT_EQ(material->ca_pem, authority_.ca());
  EXPECT_LT(absl::AbsDuration(material->expires - spec.not_after), absl::Seconds(2));
  EXPECT_THAT(material->warnings, IsEmpty());
}

TEST_F(TlsFilesTest, NoFilesAreNothing) {
  const auto material = LoadTlsMaterial({});
  ASSERT_TRUE(material.ok());
  EXPECT_THAT(material->identity_pem, IsEmpty());
  EXPECT_EQ(material->expires, absl::InfiniteFuture());
}

TEST_F(TlsFilesTest, ACertificateAndItsKeyGoTogether) {
  EXPECT_THAT(Refusal({.cert = "x"}), HasSubstr("--tls-key"));
  EXPECT_THAT(Refusal({.key = "x"}), HasSubstr("--tls-cert"));
}

TEST_F(TlsFilesTest, AMissingFileIsNamedWithItsFlag) {
  const TlsFiles good = authority_.Write(directory_, "shard");
  TlsFiles files = good;
  files.cert = "/nonexistent/tls.crt";
  EXPECT_THAT(Refusal(files), AllOf(HasSubstr("/nonexistent/tls.crt (--tls-cert)"),
                                    HasSubstr("No such file"), HasSubstr("dslide certs dev")));
  files = good;
  files.ca = directory_.path();
  EXPECT_THAT(Refusal(files), AllOf(HasSubstr("(--tls-ca)"), HasSubstr("Is a directory")));
}

TEST_F(TlsFilesTest, WhatIsNoPemIsNamed) {
  const TlsFiles good = authority_.Write(directory_, "shard");
  TlsFiles files = good;
  files.cert = directory_.Write("text.crt", "hello\n");
  EXPECT_THAT(Refusal(files), AllOf(HasSubstr("text.crt"), HasSubstr("holds no certificate")));
  files = good;
  files.key = good.cert;
  EXPECT_THAT(Refusal(files), HasSubstr("no private key in PEM"));
  files = good;
  files.ca = directory_.Write("cut.ca", authority_.ca().substr(0, authority_.ca().size() / 2));
  EXPECT_THAT(Refusal(files), AllOf(HasSubstr("cut.ca"), HasSubstr("damaged")));
}

TEST_F(TlsFilesTest, AnEncryptedKeyIsRefusedWithoutAskingForItsPassword) {
  TlsFiles files = authority_.Write(directory_, "shard");
  const PrivateKeyPtr key(EVP_EC_gen("P-256"));
  const BioPtr bio(BIO_new(BIO_s_mem()));
  char password[] = "secret";
  ASSERT_EQ(PEM_write_bio_PrivateKey(bio.get(), key.get(), EVP_aes_128_cbc(), nullptr, 0, nullptr,
                                     password),
            1);
  files.key = directory_.Write("locked.key", TextOf(bio.get()));
  EXPECT_THAT(Refusal(files), AllOf(HasSubstr("locked.key"), HasSubstr("encrypted")));
}

TEST_F(TlsFilesTest, AKeyOfAnotherCertificateIsRefused) {
  TlsFiles files = authority_.Write(directory_, "shard");
  files.key = authority_.Write(directory_, "trainer").key;
  EXPECT_THAT(Refusal(files), AllOf(HasSubstr("trainer.key"), HasSubstr("does not belong to"),
                                    HasSubstr("shard.crt")));
}

TEST_F(TlsFilesTest, CertificatesOutsideTheirTimeAreRefused) {
  CertificateSpec old = SpecOf("shard");
  old.not_after = absl::Now() - absl::Seconds(2);
  EXPECT_THAT(Refusal(authority_.Write(directory_, "old", old)),
              AllOf(HasSubstr("old.crt"), HasSubstr("expired at")));
  CertificateSpec young = SpecOf("shard");
  young.not_before = absl::Now() + absl::Minutes(1);
  EXPECT_THAT(Refusal(authority_.Write(directory_, "young", young)),
              AllOf(HasSubstr("young.crt"), HasSubstr("not valid before")));
}

TEST_F(TlsFilesTest, AnOldAuthorityMayStandBesideItsSuccessor) {
  const auto old = CertificateAuthority::Create("old", absl::Now() - absl::Hours(2),
                                                absl::Now() - absl::Hours(1));
  ASSERT_TRUE(old.ok());
  const std::string expired = (*old)->own().certificate;
  TlsFiles files = authority_.Write(directory_, "shard");
  files.ca = directory_.Write("both.ca", absl::StrCat(expired, authority_.ca()));
  EXPECT_TRUE(LoadTlsMaterial(files).ok());
  files.ca = directory_.Write("old.ca", expired);
  EXPECT_THAT(Refusal(files), HasSubstr("expired"));
}

TEST_F(TlsFilesTest, AKeyThatEverybodyMayReadDeservesAWarning) {
  TlsFiles files = authority_.Write(directory_, "shard");
  ASSERT_EQ(::chmod(files.key.c_str(), 0644), 0);
  const auto material = LoadTlsMaterial(files);
  ASSERT_TRUE(material.ok());
  EXPECT_THAT(material->warnings, ElementsAre(AllOf(HasSubstr("shard.key"), HasSubstr("chmod"))));
}

}  // namespace
}  // namespace dslide
