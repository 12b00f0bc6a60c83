#include "client/cli/development_certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/command_line.h"
#include "client/cli/exit_codes.h"
#include "core/tls/certificate_roles.h"
#include "core/tls/tls_files.h"

namespace dslide::cli {
namespace {

using ::testing::AllOf;
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
           [](auto& wanted) { wanted.cluster = "A"; },
           [](auto& wanted) { wanted.days = 0; },
           [](auto& wanted) { wanted.days = 4000; },
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
  EXPECT_TRUE(std::filesystem::exists(*list));
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

}  // namespace
}  // namespace dslide::cli
