#include "client/cli/cluster/development_certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "client/cli/commands/command_line.h"
#include "client/cli/console/exit_codes.h"
#include "core/net/tls/certificate_jobs.h"
#include "core/net/tls/certificate_roles.h"
#include "core/net/tls/openssl_types.h"
#include "core/net/tls/tls_files.h"

namespace dslide::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DevelopmentCertificatesTest : public ::testing::Test {
 protected:
  DevelopmentCertificatesTest()
      : parent_((std::filesystem::path(testing::TempDir()) / "certs-XXXXXX").string()) {
    EXPECT_NE(mkdtemp(parent_.data()), nullptr);
    wanted_.directory = parent_ + "/made/here";
  }
  ~DevelopmentCertificatesTest() override { std::filesystem::remove_all(parent_); }

  absl::StatusOr<std::vector<std::string>> Write() const {
    return WriteDevelopmentCertificates(wanted_, absl::Now());
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(wanted_.directory + "/" + name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  std::string parent_;
  DevelopmentCertificates wanted_;
};

TEST_F(DevelopmentCertificatesTest, EachRoleGetsAUsableSetThatOnlyTheOwnerReads) {
  const auto names = Write();
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_EQ(names->size(), 2 + 2 * std::size(kAllRoles));
  for (const std::string& name : *names) {
    struct stat status {};
    ASSERT_EQ(::stat((wanted_.directory + "/" + name).c_str(), &status), 0) << name;
    EXPECT_EQ(status.st_mode & 0777, 0600u) << name;
  }
  for (const Role role : kAllRoles) {
    const std::string base = absl::StrCat(wanted_.directory, "/", RoleName(role));
    const auto material = LoadTlsMaterial(
        {.cert = base + ".crt", .key = base + ".key", .ca = wanted_.directory + "/ca.crt"});
    ASSERT_TRUE(material.ok()) << material.status();
    EXPECT_LT(absl::AbsDuration(material->expires - absl::Now() - absl::Hours(24 * 30)),
              absl::Minutes(1));
  }
}

TEST_F(DevelopmentCertificatesTest, FilesThatAreThereAreKeptUnlessToldOtherwise) {
  ASSERT_TRUE(Write().ok());
  const std::string before = Read("trainer.crt");
  const absl::Status refused = Write().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.message()), AllOf(HasSubstr("ca.crt"), HasSubstr("--overwrite")));
  EXPECT_EQ(Read("trainer.crt"), before);
  wanted_.overwrite = true;
  EXPECT_TRUE(Write().ok());
  EXPECT_NE(Read("trainer.crt"), before);
}

TEST_F(DevelopmentCertificatesTest, WrongWishesAreRefusedBeforeAnythingIsWritten) {
  for (const auto& change : std::vector<std::function<void(DevelopmentCertificates&)>>{
           [](auto& wanted) { wanted.hosts = {"a b"}; },
           [](auto& wanted) {
             wanted.hosts = {"fine", "10.0.0.300"};
           },
           [](auto& wanted) { wanted.cluster = "A"; },
           [](auto& wanted) { wanted.days = 0; },
           [](auto& wanted) { wanted.days = 4000; },
           [](auto& wanted) {
             wanted.jobs = {"run-1", "a/b"};
           },
       }) {
    DevelopmentCertificates wrong = wanted_;
    change(wrong);
    EXPECT_EQ(WriteDevelopmentCertificates(wrong, absl::Now()).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(std::filesystem::exists(wanted_.directory));
}

TEST_F(DevelopmentCertificatesTest, TheCommandSaysWhatToDoNext) {
  testing::internal::CaptureStdout();
  const int code = RunCommandLine({"certs", "dev", "--output", wanted_.directory, "--host", "a.b",
                                   "--host", "10.0.0.1", "--days", "2"});
  const std::string out = testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, kExitOk);
  EXPECT_THAT(out, AllOf(HasSubstr("reader.key"), HasSubstr("valid for 2 days"),
                         HasSubstr("dslide-shard --coordinator"), HasSubstr("not use it in")));
}

TEST_F(DevelopmentCertificatesTest, ACertificateIsRevokedOnce) {
  ASSERT_TRUE(Write().ok());
  const std::string trainer = wanted_.directory + "/trainer.crt";
  const auto list = RevokeCertificate(wanted_.directory, trainer, absl::Now());
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(*list, AllOf(HasSubstr(wanted_.directory + "/crl/"), HasSubstr(".r0")));
  // For servers under accounts of their own.
  EXPECT_EQ(std::filesystem::status(*list).permissions(), std::filesystem::perms(0644));
  EXPECT_TRUE(
      absl::IsAlreadyExists(RevokeCertificate(wanted_.directory, trainer, absl::Now()).status()));
  const auto next =
      RevokeCertificate(wanted_.directory, wanted_.directory + "/reader.crt", absl::Now());
  EXPECT_THAT(*next, HasSubstr(".r1"));
  const absl::Status missing =
      RevokeCertificate(wanted_.directory, parent_ + "/nothing.crt", absl::Now()).status();
  EXPECT_TRUE(absl::IsNotFound(missing));
  EXPECT_THAT(std::string(missing.message()), HasSubstr("nothing.crt"));
}

// The URI names of a certificate, as `openssl x509 -text` shows them.
std::string UrisOf(const std::string& path) {
  std::ifstream file(path);
  const std::string pem(std::istreambuf_iterator<char>(file), {});
  const CertificatePtr certificate(
      PEM_read_bio_X509(ReadOnlyBio(pem).get(), nullptr, nullptr, nullptr));
  const BioPtr text(BIO_new(BIO_s_mem()));
  X509_print(text.get(), certificate.get());
  std::vector<std::string> uris;
  for (absl::string_view word : absl::StrSplit(TextOf(text.get()), absl::ByAnyChar(", \n"))) {
    if (absl::ConsumePrefix(&word, "URI:")) uris.emplace_back(word);
  }
  return absl::StrJoin(uris, " ");
}

TEST_F(DevelopmentCertificatesTest, EachJobGetsATrainersCertificateOfItsOwn) {
  wanted_.jobs = {"run-1", std::string(64, 'a')};
  const auto names = Write();
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_EQ(names->size(), 2 + 2 * (std::size(kAllRoles) + 2));
  EXPECT_EQ(UrisOf(wanted_.directory + "/trainer.crt"), "dslide://dslide/trainer");
  for (const std::string& job : wanted_.jobs) {
    const std::string base = absl::StrCat(wanted_.directory, "/trainer-", job);
    EXPECT_EQ(UrisOf(base + ".crt"), JobUri("dslide", job));
    EXPECT_TRUE(
        LoadTlsMaterial(
            {.cert = base + ".crt", .key = base + ".key", .ca = wanted_.directory + "/ca.crt"})
            .ok());
  }
}

TEST_F(DevelopmentCertificatesTest, FurtherCertificatesAreOfTheSameAuthority) {
  ASSERT_TRUE(Write().ok());
  FurtherCertificate ann = {.directory = wanted_.directory, .name = "ann", .jobs = {"a", "b"}};
  const auto names = IssueFurtherCertificate(ann, absl::Now());
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_THAT(*names, ElementsAre("ann.crt", "ann.key"));
  EXPECT_EQ(UrisOf(wanted_.directory + "/ann.crt"),
            absl::StrCat(JobUri("dslide", "a"), " ", JobUri("dslide", "b")));
  const absl::Status twice = IssueFurtherCertificate(ann, absl::Now()).status();
  EXPECT_TRUE(absl::IsAlreadyExists(twice)) << twice;
  EXPECT_THAT(std::string(twice.message()), AllOf(HasSubstr("ann.crt"), HasSubstr("--name")));
  // It can be revoked as those that were made first.
  EXPECT_TRUE(
      RevokeCertificate(wanted_.directory, wanted_.directory + "/ann.crt", absl::Now()).ok());
  ann.name.clear();
  EXPECT_THAT(*IssueFurtherCertificate(ann, absl::Now()),
              ElementsAre("trainer-a.crt", "trainer-a.key"));
  for (const auto& change : std::vector<std::function<void(FurtherCertificate&)>>{
           [](auto& wanted) { wanted.role = Role::kReader; },
           [](auto& wanted) { wanted.jobs = {"A"}; },
           [](auto& wanted) { wanted.name = "../a"; },
           [](auto& wanted) { wanted.name = "ca"; },
           [](auto& wanted) { wanted.cluster = ""; },
           [](auto& wanted) { wanted.days = 0; },
       }) {
    FurtherCertificate wrong = ann;
    wrong.overwrite = true;
    change(wrong);
    EXPECT_TRUE(absl::IsInvalidArgument(IssueFurtherCertificate(wrong, absl::Now()).status()));
  }
  ann.directory = parent_;
  EXPECT_TRUE(absl::IsNotFound(IssueFurtherCertificate(ann, absl::Now()).status()));
}

TEST_F(DevelopmentCertificatesTest, TheCommandIssuesWhatItIsTold) {
  ASSERT_TRUE(Write().ok());
  testing::internal::CaptureStdout();
  EXPECT_EQ(RunCommandLine({"certs", "issue", "--from", wanted_.directory, "--job", "run-1",
                            "--job", "query", "-o", "json"}),
            kExitOk);
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              AllOf(HasSubstr("\"jobs\":[\"run-1\",\"query\"]"),
                    HasSubstr("\"files\":[\"trainer-run-1.crt\",\"trainer-run-1.key\"]")));
  testing::internal::CaptureStderr();
  EXPECT_EQ(RunCommandLine({"certs", "issue", "--from", wanted_.directory, "--role", "root"}),
            kExitUsage);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("shard, coordinator, trainer, operator, reader"));
}

}  // namespace
}  // namespace dslide::cli
