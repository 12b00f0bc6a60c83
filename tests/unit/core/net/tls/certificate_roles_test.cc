#include "core/net/tls/certificate_roles.h"

#include <gtest/gtest.h>

namespace dslide {
namespace {

TEST(CertificateRolesTest, OnlyTheExactUriOfTheClusterGivesARole) {
  EXPECT_EQ(RoleOfUri("dslide://dslide/trainer", "dslide"), Role::kTrainer);
  for (const Role role : kAllRoles) EXPECT_EQ(RoleOfUri(RoleUri("c-1", role), "c-1"), role);
  for (const char* uri :
       {"", "dslide://dslide/", "dslide://dslide/Trainer", "dslide://dslide/trainer/",
        "dslide://dslide/trainer ", "dslide://other/trainer", "dslide://dslide2/trainer",
        "https://dslide/trainer", "dslide://dslidetrainer", " dslide://dslide/trainer",
        "spiffe://dslide/trainer", "dslide:///trainer"}) {
    EXPECT_EQ(RoleOfUri(uri, "dslide"), std::nullopt) << uri;
  }
}

TEST(CertificateRolesTest, ClusterNamesAreNames) {
  EXPECT_TRUE(CheckClusterName("dslide").ok());
  EXPECT_TRUE(CheckClusterName("prod-2").ok());
  for (const std::string& name : {std::string(), std::string("A"), std::string("a/b"),
                                  std::string("a b"), std::string(65, 'a')}) {
    EXPECT_EQ(CheckClusterName(name).code(), absl::StatusCode::kInvalidArgument) << name;
  }
}

}  // namespace
}  // namespace dslide
