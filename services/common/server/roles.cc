#include "services/common/server/roles.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/system/log.h"

namespace dslide {
namespace {

constexpr size_t kShownMethod = 128;

constexpr RoleSet kEverybody = {Role::kShard, Role::kCoordinator, Role::kTrainer, Role::kOperator,
                                Role::kReader};
constexpr RoleSet kShards = {Role::kShard};
constexpr RoleSet kCoordinators = {Role::kCoordinator};
constexpr RoleSet kTrainers = {Role::kTrainer};
constexpr RoleSet kOperators = {Role::kOperator};
// A training registers its model, keeps the rows of its best epoch and goes back to them.
constexpr RoleSet kTrainingOrOperators = {Role::kTrainer, Role::kOperator};
// Looking at rows, and at what describes them.
constexpr RoleSet kReading = {Role::kTrainer, Role::kOperator, Role::kReader};
constexpr RoleSet kWatching = {Role::kOperator, Role::kReader};

// docs/operate/security.md shows this table; a test compares them.
constexpr MethodRoles kTable[] = {
    {"/dslide.v1.CoordinatorService/RegisterShard", kShards},
    {"/dslide.v1.CoordinatorService/Heartbeat", kShards},
    {"/dslide.v1.CoordinatorService/DeregisterShard", kShards},
    {"/dslide.v1.CoordinatorService/GetClusterMap", kReading},
    {"/dslide.v1.CoordinatorService/RegisterModel", kTrainingOrOperators},
    // Of a stream of data with labels that the model does not have.
    {"/dslide.v1.CoordinatorService/GrowModel", kTrainingOrOperators},
    // And of one whose labels are gone.
    {"/dslide.v1.CoordinatorService/RetireLabels", kTrainingOrOperators},
    {"/dslide.v1.CoordinatorService/ListModels", kReading},
    {"/dslide.v1.CoordinatorService/UnregisterModel", kOperators},
    {"/dslide.v1.CoordinatorService/ListModelAssets", kReading},
    {"/dslide.v1.CoordinatorService/ReadModelAsset", kReading},
    {"/dslide.v1.CoordinatorService/WriteModelAsset", kTrainingOrOperators},
    {"/dslide.v1.CoordinatorService/CommitModelAssets", kTrainingOrOperators},
    {"/dslide.v1.CoordinatorService/GetClusterStatus", kWatching},
    {"/dslide.v1.CoordinatorService/RegisterJob", kTrainers},
    {"/dslide.v1.CoordinatorService/AcquireWork", kTrainers},
    {"/dslide.v1.CoordinatorService/LeaveJob", kTrainers},
    {"/dslide.v1.CoordinatorService/CancelJob", kOperators},
    {"/dslide.v1.CoordinatorService/DeleteJob", kOperators},
    {"/dslide.v1.CoordinatorService/CreateCheckpoint", kTrainingOrOperators},
    {"/dslide.v1.CoordinatorService/RestoreCheckpoint", kTrainingOrOperators},
    // Who has started one knows its id, and no trainer can list those of others.
    {"/dslide.v1.CoordinatorService/GetOperation", kTrainingOrOperators},
    {"/dslide.v1.CoordinatorService/ListOperations", kWatching},
    {"/dslide.v1.CoordinatorService/CancelOperation", kTrainingOrOperators},
    {"/dslide.v1.CoordinatorService/CreateClusterCheckpoint", kOperators},
    // A trainer asks whether there is something to go back to.
    {"/dslide.v1.CoordinatorService/ListClusterCheckpoints", kReading},
    {"/dslide.v1.CoordinatorService/VerifyClusterCheckpoint", kOperators},
    {"/dslide.v1.CoordinatorService/RestoreClusterCheckpoint", kOperators},
    {"/dslide.v1.CoordinatorService/PruneClusterCheckpoints", kOperators},
    {"/dslide.v1.CoordinatorService/GetClusterCheckpointManifest", kOperators},
    {"/dslide.v1.CoordinatorService/AdoptClusterCheckpoint", kOperators},

    {"/dslide.v1.ShardService/GetServerInfo",
     {Role::kCoordinator, Role::kTrainer, Role::kOperator, Role::kReader}},
    {"/dslide.v1.ShardService/Step", kTrainers},
    {"/dslide.v1.ShardService/Gather", kReading},
    {"/dslide.v1.ShardService/Scatter", kTrainers},
    {"/dslide.v1.ShardService/Read", kReading},
    {"/dslide.v1.ShardService/TopK", kReading},
    // Through the coordinator only: a model that one shard alone has, or lacks, helps nobody.
    {"/dslide.v1.ShardService/CreateModel", kCoordinators},
    {"/dslide.v1.ShardService/DescribeModel",
     {Role::kCoordinator, Role::kTrainer, Role::kOperator, Role::kReader}},
    {"/dslide.v1.ShardService/ReadRows", kReading},
    {"/dslide.v1.ShardService/DropModel", kCoordinators},
    {"/dslide.v1.ShardService/Hello", kTrainers},
    {"/dslide.v1.ShardService/CloseClient", kTrainers},
    {"/dslide.v1.ShardService/WriteCheckpoint", kCoordinators},
    {"/dslide.v1.ShardService/LoadCheckpoint", kCoordinators},
    {"/dslide.v1.ShardService/EstimateFreezeDelay", kCoordinators},
    {"/dslide.v1.ShardService/FreezeSteps", kCoordinators},
    {"/dslide.v1.ShardService/AdmitSteps", kCoordinators},
    {"/dslide.v1.ShardService/CutCheckpoint", kCoordinators},
    {"/dslide.v1.ShardService/AbortCheckpoint", kCoordinators},
    {"/dslide.v1.ShardService/GetCheckpointProgress", kCoordinators},
    {"/dslide.v1.ShardService/VerifyCheckpoint", kCoordinators},
    {"/dslide.v1.ShardService/PrepareRollback", kCoordinators},
    {"/dslide.v1.ShardService/RetainCheckpoints", kCoordinators},
    {"/dslide.v1.ShardService/Rollback", kCoordinators},
    // Copies go to where the operator wants them, past the coordinator.
    {"/dslide.v1.ShardService/ReadCheckpointFile", kOperators},
    {"/dslide.v1.ShardService/WriteCheckpointFile", kOperators},
    {"/dslide.v1.ShardService/AdoptCheckpoint", kOperators},

    // Of `dslide serve`.
    {"/dslide.v1.PredictService/Predict", kReading},
    {"/dslide.v1.PredictService/GetModel", kReading},

    // Of `dslide data serve`: whole data sets, which predictions need nothing of.
    {"/dslide.v1.DataService/GetDataset", kTrainingOrOperators},
    {"/dslide.v1.DataService/ListFeatures", kTrainingOrOperators},
    {"/dslide.v1.DataService/ListLabels", kTrainingOrOperators},
    {"/dslide.v1.DataService/ReadPoints", kTrainingOrOperators},

    {"/grpc.health.v1.Health/Check", kEverybody},
    {"/grpc.health.v1.Health/Watch", kEverybody},
    // What the services are made of is for those who run them.
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", kOperators},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", kOperators},  // of newer gRPC
};

}  // namespace

std::string RoleSet::ToString() const {
  std::vector<const char*> names;
  for (const Role role : kAllRoles) {
    if (Has(role)) names.push_back(RoleName(role));
  }
  return names.empty() ? "none" : absl::StrJoin(names, " or ");
}

absl::Span<const MethodRoles> RoleTable() { return kTable; }

absl::Status CheckRoles(RoleSet held, absl::string_view method) {
  RoleSet allowed;
  for (const MethodRoles& entry : kTable) {
    if (method == entry.method) allowed = entry.roles;
  }
  if (held.Intersects(allowed)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("role ", held.ToString(), " may not call ", EscapeForLog(method, kShownMethod),
                   ": that is for ", allowed.empty() ? "nobody" : allowed.ToString(),
                   " (see docs/operate/security.md)"));
}

}  // namespace dslide
