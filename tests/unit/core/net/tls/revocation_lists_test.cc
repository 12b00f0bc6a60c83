#include "core/net/tls/revocation_lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/core/net/tls/test_certificates.h"

namespace dslide {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RevocationListsTest : public ::testing::Test {
 protected:
  absl::StatusOr<RevocationList> Revoke(const std::string& certificate) {
    return NextRevocationList(directory_.path(), authority_.ca(), authority_.key(), certificate,
                              absl::Now());
  }
  RevocationList MustRevoke(const std::string& certificate) {
    absl::StatusOr<RevocationList> list = Revoke(certificate);
    EXPECT_TRUE(list.ok()) << list.status();
    directory_.Write(list->name, list->pem);
    return *std::move(list);
  }

  TestDirectory directory_;
  TestAuthority authority_;
};

TEST_F(RevocationListsTest, EachListHasWhatTheOnesBeforeHad) {
  const std::string first = authority_.Issue(SpecOf("trainer")).certificate;
  const std::string second = authority_.Issue(SpecOf("trainer")).certificate;
  EXPECT_THAT(MustRevoke(first).name, EndsWith(".r0"));
  EXPECT_THAT(MustRevoke(second).name, EndsWith(".r1"));
  for (const std::string& certificate : {first, second}) {
    EXPECT_TRUE(absl::IsAlreadyExists(Revoke(certificate).status()));
  }
  const auto warnings = CheckRevocationLists(directory_.path(), authority_.ca());
  ASSERT_TRUE(warnings.ok()) << warnings.status();
  EXPECT_THAT(*warnings, IsEmpty());
}

TEST_F(RevocationListsTest, OnlyTheAuthoritysOwnCertificatesAreRevoked) {
  const TestAuthority foreign;
  const std::string alien = foreign.Issue(SpecOf("trainer")).certificate;
  EXPECT_TRUE(absl::IsInvalidArgument(Revoke("no certificate").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      NextRevocationList(directory_.path(), authority_.ca(), foreign.key(), alien, absl::Now())
          .status()));
  EXPECT_FALSE(Revoke(alien).ok());
}

TEST_F(RevocationListsTest, AnAuthorityWithoutAListIsWarnedOf) {
  const auto warnings = CheckRevocationLists(directory_.path(), authority_.ca());
  ASSERT_TRUE(warnings.ok()) << warnings.status();
  EXPECT_THAT(*warnings, ElementsAre(HasSubstr("is accepted until there is one")));
}

TEST_F(RevocationListsTest, WhatCannotBeReadIsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      CheckRevocationLists(directory_.path() + "/nowhere", authority_.ca()).status()));
  const RevocationList list = MustRevoke(authority_.Issue(SpecOf("trainer")).certificate);
  directory_.Write("README", "no list by its name");
  EXPECT_TRUE(CheckRevocationLists(directory_.path(), authority_.ca()).ok());
  directory_.Write(list.name, list.pem.substr(0, list.pem.size() / 2));
  const absl::Status refused = CheckRevocationLists(directory_.path(), authority_.ca()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr(list.name), HasSubstr("--tls-crl-dir")));
}

// OpenSSL would stop at the gap, and whom the lists beyond it revoke would be let in.
TEST_F(RevocationListsTest, ListsBeyondAGapAreRefused) {
  const RevocationList first = MustRevoke(authority_.Issue(SpecOf("trainer")).certificate);
  const std::string hash = first.name.substr(0, first.name.size() - 1);
  for (const char* number : {"1", "00", "3", "99999999999999999999"}) {
    const TestDirectory directory;
    directory.Write(absl::StrCat(hash, number), first.pem);
    const absl::Status refused = CheckRevocationLists(directory.path(), authority_.ca()).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << number;
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr(absl::StrCat(hash, number)), HasSubstr("without a gap")));
  }
  directory_.Write(absl::StrCat(hash, "2"), first.pem);
  EXPECT_FALSE(CheckRevocationLists(directory_.path(), authority_.ca()).ok());
  directory_.Write(absl::StrCat(hash, "1"), first.pem);
  EXPECT_TRUE(CheckRevocationLists(directory_.path(), authority_.ca()).ok());
}

TEST_F(RevocationListsTest, ListsNeedTheirAuthorities) {
  const absl::Status refused = CheckTlsFileNames({.crl_dir = "x"});
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--tls-ca"));
}

}  // namespace
}  // namespace dslide
