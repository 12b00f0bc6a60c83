#include "services/common/server/roles.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "dslide/v1/coordinator.pb.h"
#include "dslide/v1/data.pb.h"
#include "dslide/v1/predict.pb.h"
#include "dslide/v1/shard.pb.h"

namespace dslide {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Written by hand, apart from the table: a new method fails the test until somebody has decided.
// S shard, C coordinator, T trainer, O operator, R reader.
const std::map<std::string, std::string>& Expected() {
  static const auto* const expected = new std::map<std::string, std::string>{
      {"/dslide.v1.CoordinatorService/RegisterShard", "S...."},
      {"/dslide.v1.CoordinatorService/Heartbeat", "S...."},
      {"/dslide.v1.CoordinatorService/DeregisterShard", "S...."},
      {"/dslide.v1.CoordinatorService/GetClusterMap", "..TOR"},
      {"/dslide.v1.CoordinatorService/RegisterModel", "..TO."},
      {"/dslide.v1.CoordinatorService/GrowModel", "..TO."},
      {"/dslide.v1.CoordinatorService/RetireLabels", "..TO."},
      {"/dslide.v1.CoordinatorService/ListModels", "..TOR"},
      {"/dslide.v1.CoordinatorService/UnregisterModel", "...O."},
      {"/dslide.v1.CoordinatorService/ListModelAssets", "..TOR"},
      {"/dslide.v1.CoordinatorService/ReadModelAsset", "..TOR"},
      {"/dslide.v1.CoordinatorService/WriteModelAsset", "..TO."},
      {"/dslide.v1.CoordinatorService/CommitModelAssets", "..TO."},
      {"/dslide.v1.CoordinatorService/GetClusterStatus", "...OR"},
      {"/dslide.v1.CoordinatorService/RegisterJob", "..T.."},
      {"/dslide.v1.CoordinatorService/AcquireWork", "..T.."},
      {"/dslide.v1.CoordinatorService/LeaveJob", "..T.."},
      {"/dslide.v1.CoordinatorService/CancelJob", "...O."},
      {"/dslide.v1.CoordinatorService/DeleteJob", "...O."},
      {"/dslide.v1.CoordinatorService/CreateCheckpoint", "..TO."},
      {"/dslide.v1.CoordinatorService/RestoreCheckpoint", "..TO."},
      {"/dslide.v1.CoordinatorService/GetOperation", "..TO."},
      {"/dslide.v1.CoordinatorService/ListOperations", "...OR"},
      {"/dslide.v1.CoordinatorService/CancelOperation", "..TO."},
      {"/dslide.v1.CoordinatorService/CreateClusterCheckpoint", "...O."},
      {"/dslide.v1.CoordinatorService/ListClusterCheckpoints", "..TOR"},
      {"/dslide.v1.CoordinatorService/VerifyClusterCheckpoint", "...O."},
      {"/dslide.v1.CoordinatorService/RestoreClusterCheckpoint", "...O."},
      {"/dslide.v1.CoordinatorService/PruneClusterCheckpoints", "...O."},
      {"/dslide.v1.CoordinatorService/GetClusterCheckpointManifest", "...O."},
      {"/dslide.v1.CoordinatorService/AdoptClusterCheckpoint", "...O."},
      {"/dslide.v1.ShardService/GetServerInfo", ".CTOR"},
      {"/dslide.v1.ShardService/Step", "..T.."},
      {"/dslide.v1.ShardService/Gather", "..TOR"},
      {"/dslide.v1.ShardService/Scatter", "..T.."},
      {"/dslide.v1.ShardService/Read", "..TOR"},
      {"/dslide.v1.ShardService/ReadRows", "..TOR"},
      {"/dslide.v1.ShardService/TopK", "..TOR"},
      {"/dslide.v1.ShardService/CreateModel", ".C..."},
      {"/dslide.v1.ShardService/DescribeModel", ".CTOR"},
      {"/dslide.v1.ShardService/DropModel", ".C..."},
      {"/dslide.v1.ShardService/Hello", "..T.."},
      {"/dslide.v1.ShardService/CloseClient", "..T.."},
      {"/dslide.v1.ShardService/WriteCheckpoint", ".C..."},
      {"/dslide.v1.ShardService/LoadCheckpoint", ".C..."},
      {"/dslide.v1.ShardService/EstimateFreezeDelay", ".C..."},
      {"/dslide.v1.ShardService/FreezeSteps", ".C..."},
      {"/dslide.v1.ShardService/AdmitSteps", ".C..."},
      {"/dslide.v1.ShardService/CutCheckpoint", ".C..."},
      {"/dslide.v1.ShardService/AbortCheckpoint", ".C..."},
      {"/dslide.v1.ShardService/GetCheckpointProgress", ".C..."},
      {"/dslide.v1.ShardService/VerifyCheckpoint", ".C..."},
      {"/dslide.v1.ShardService/PrepareRollback", ".C..."},
      {"/dslide.v1.ShardService/RetainCheckpoints", ".C..."},
      {"/dslide.v1.ShardService/Rollback", ".C..."},
      {"/dslide.v1.ShardService/ReadCheckpointFile", "...O."},
      {"/dslide.v1.ShardService/WriteCheckpointFile", "...O."},
      {"/dslide.v1.ShardService/AdoptCheckpoint", "...O."},
      {"/dslide.v1.PredictService/Predict", "..TOR"},
      {"/dslide.v1.PredictService/GetModel", "..TOR"},
      {"/dslide.v1.DataService/GetDataset", "..TO."},
      {"/dslide.v1.DataService/ListFeatures", "..TO."},
      {"/dslide.v1.DataService/ListLabels", "..TO."},
      {"/dslide.v1.DataService/ReadPoints", "..TO."},
      {"/grpc.health.v1.Health/Check", "SCTOR"},
      {"/grpc.health.v1.Health/Watch", "SCTOR"},
      {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "...O."},
      {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "...O."},
  };
  return *expected;
}

std::string Letters(const std::string& method) {
  std::string letters;
  for (size_t i = 0; i < std::size(kAllRoles); ++i) {
    letters += CheckRoles({kAllRoles[i]}, method).ok() ? "SCTOR"[i] : '.';
  }
  return letters;
}

// The methods of the protos, and of what gRPC itself serves.
std::set<std::string> AllMethods() {
  std::set<std::string> methods = {"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch",
                                   "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                   "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"};
  for (const google::protobuf::FileDescriptor* file :
       {v1::RegisterShardRequest::descriptor()->file(), v1::StepRequest::descriptor()->file(),
        v1::PredictRequest::descriptor()->file(), v1::GetDatasetRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      const google::protobuf::ServiceDescriptor* service = file->service(i);
      for (int j = 0; j < service->method_count(); ++j) {
        methods.insert(absl::StrCat("/", service->full_name(), "/", service->method(j)->name()));
      }
    }
  }
  return methods;
}

TEST(RolesTest, EveryMethodOfEveryServiceIsForTheRolesThatSomebodyChose) {
  const std::set<std::string> methods = AllMethods();
  EXPECT_GE(methods.size(), 31u);
  for (const std::string& method : methods) {
    const auto found = Expected().find(method);
    ASSERT_NE(found, Expected().end())
        << method << ": decide who may call it, here and in roles.cc";
    EXPECT_EQ(Letters(method), found->second) << method;
    EXPECT_EQ(CheckRoles({}, method).code(), absl::StatusCode::kPermissionDenied) << method;
  }
  for (const auto& [method, letters] : Expected()) {
    EXPECT_TRUE(methods.contains(method)) << method << " is no method of any service";
  }
}

TEST(RolesTest, TheTableNamesNoMethodTwiceAndNoneThatIsNotServed) {
  const std::set<std::string> methods = AllMethods();
  std::set<std::string> seen;
  for (const MethodRoles& entry : RoleTable()) {
    EXPECT_TRUE(seen.insert(entry.method).second) << entry.method;
    EXPECT_TRUE(methods.contains(entry.method)) << entry.method;
  }
}

TEST(RolesTest, WhatIsUnknownIsForNobody) {
  for (const Role role : kAllRoles) {
    for (const char* method : {"", "/", "/dslide.v1.ShardService/", "/dslide.v1.ShardService/Stop",
                               "/dslide.v1.ShardService/gather", "dslide.v1.ShardService/Gather",
                               "/dslide.v1.ShardService/Gather/"}) {
      EXPECT_EQ(CheckRoles({role}, method).code(), absl::StatusCode::kPermissionDenied) << method;
    }
  }
}

TEST(RolesTest, ARefusalNamesTheRoleTheMethodAndWhoMay) {
  const absl::Status refused =
      CheckRoles({Role::kReader}, "/dslide.v1.CoordinatorService/UnregisterModel");
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("role reader may not call /dslide.v1.CoordinatorService/"
                              "UnregisterModel"),
                    HasSubstr("that is for operator")));
  EXPECT_THAT(std::string(CheckRoles({}, "/x\n").message()),
              AllOf(HasSubstr("role none may not call /x\\n"), HasSubstr("for nobody")));
}

TEST(RolesTest, SeveralRolesMayDoWhatAnyOfThemMay) {
  const RoleSet both = {Role::kTrainer, Role::kReader};
  EXPECT_TRUE(CheckRoles(both, "/dslide.v1.ShardService/Step").ok());
  EXPECT_TRUE(CheckRoles(both, "/dslide.v1.CoordinatorService/GetClusterStatus").ok());
  EXPECT_EQ(both.ToString(), "trainer or reader");
}

// The rows of the page's table, "| `Service/Method` | x | | x | | |", for each method of ours.
TEST(RolesTest, ThePageOnSecurityShowsTheTable) {
  std::ifstream file(absl::StrCat(DSLIDE_SOURCE_DIR, "/docs/operate/security.md"));
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  for (const auto& [method, letters] : Expected()) {
    std::vector<std::string> cells = {absl::StrCat("`", method.substr(1), "`")};
    for (const char letter : letters) cells.emplace_back(letter == '.' ? "–" : "yes");
    EXPECT_THAT(page, HasSubstr(absl::StrCat("| ", absl::StrJoin(cells, " | "), " |\n")));
  }
}

}  // namespace
}  // namespace dslide
