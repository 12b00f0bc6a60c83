#include "client/cli/conformance/coordinator_face.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/protocol/coordinator_reason_words.h"
#include "core/spec/spec_difference.h"
#include "core/wire/model_spec_codec.h"
#include "services/common/status_mapping.h"

namespace dslide::cli {
namespace {

// With the choices that a client may leave to the shards or make itself, made.
ModelSpec Resolved(ModelSpec spec) {
  for (TableSpec& table : spec.tables) {
    if (table.role == TableRole::kHead) table.head = ResolvedHead(table);
  }
  return spec;
}

void CheckModel(const Course& course, const v1::ModelSpec& spec, Verdicts& verdicts) {
  verdicts.Saw(Chapter::kModels);
  const auto tell = [&](absl::string_view field, std::string found, std::string expected) {
    verdicts.Add({.chapter = Chapter::kModels,
                  .call = "RegisterModel",
                  .where = "model " + spec.name(),
                  .field = absl::StrCat("spec.", field),
                  .found = std::move(found),
                  .expected = std::move(expected),
                  .section = "connecting"});
  };
  const ModelSpec* const wanted = course.FindModel(spec.name());
  if (wanted == nullptr) {
    tell("name", absl::StrCat("\"", spec.name(), "\""), "that of a model of the course");
    return;
  }
  const auto found = wire::DecodeModelSpec(spec, /*sizes_known=*/true);
  if (!found.ok()) {
    tell("tables", std::string(found.status().message()), "the announced spec, every size set");
    return;
  }
  auto differs = FirstDifference(Resolved(*wanted), Resolved(*found));
  if (!differs.has_value()) differs = FirstDifference(wanted->training, found->training);
  if (differs.has_value()) tell(differs->field, differs->other, differs->known);
}

}  // namespace

CoordinatorFace::CoordinatorFace(const std::shared_ptr<grpc::Channel>& channel,
                                 std::vector<FaceAddress> shards, CourseChecks& checks)
    : checks_(checks),
      stub_(v1::CoordinatorService::NewStub(channel)),
      shards_(std::move(shards)) {}

template <typename Request, typename Response>
grpc::Status CoordinatorFace::Pass(
    const Context& context, absl::string_view call,
    UnaryMethod<v1::CoordinatorService::Stub, Request, Response> method, const Request& request,
    Response* response) {
  CheckCall(context, call, DeadlineRule::kNeeded, checks_.verdicts);
  return Forward(context, *stub_, method, request, response);
}

template <typename Shards>
void CoordinatorFace::ShowFaces(Shards* shards) const {
  for (v1::ShardInfo& shard : *shards) {
    const auto ordinal = static_cast<size_t>(shard.shard_id());
    if (ordinal >= shards_.size()) continue;
    shard.set_address(shards_[ordinal].address);
    shard.set_generation(shards_[ordinal].face->Shown(shard.generation()));
  }
}

grpc::Status CoordinatorFace::GetClusterMap(Context* context,
                                            const v1::GetClusterMapRequest* request,
                                            v1::GetClusterMapResponse* response) {
  // A cluster that is still forming, once.
  if (!formed_.exchange(true)) {
    CheckCall(*context, "GetClusterMap", DeadlineRule::kNeeded, checks_.verdicts);
    return ToGrpcStatus(StatusWithReason(absl::StatusCode::kUnavailable, reason::kNotAllShards,
                                         "shards are missing (the course says so on purpose)"));
  }
  grpc::Status status = Pass(*context, "GetClusterMap",
                             &v1::CoordinatorService::Stub::GetClusterMap, *request, response);
  ShowFaces(response->mutable_shards());
  return status;
}

grpc::Status CoordinatorFace::GetClusterStatus(Context* context,
                                               const v1::GetClusterStatusRequest* request,
                                               v1::GetClusterStatusResponse* response) {
  grpc::Status status = Pass(*context, "GetClusterStatus",
                             &v1::CoordinatorService::Stub::GetClusterStatus, *request, response);
  ShowFaces(response->mutable_shards());
  return status;
}

grpc::Status CoordinatorFace::RegisterModel(Context* context,
                                            const v1::RegisterModelRequest* request,
                                            v1::RegisterModelResponse* response) {
  CheckModel(checks_.course, request->spec(), checks_.verdicts);
  return Pass(*context, "RegisterModel", &v1::CoordinatorService::Stub::RegisterModel, *request,
              response);
}

grpc::Status CoordinatorFace::ListModels(Context* context, const v1::ListModelsRequest* request,
                                         v1::ListModelsResponse* response) {
  return Pass(*context, "ListModels", &v1::CoordinatorService::Stub::ListModels, *request,
              response);
}

grpc::Status CoordinatorFace::RegisterJob(Context* context, const v1::RegisterJobRequest* request,
                                          v1::RegisterJobResponse* response) {
  checks_.training->Registered(request->spec());
  return Pass(*context, "RegisterJob", &v1::CoordinatorService::Stub::RegisterJob, *request,
              response);
}

grpc::Status CoordinatorFace::AcquireWork(Context* context, const v1::AcquireWorkRequest* request,
                                          v1::AcquireWorkResponse* response) {
  grpc::Status status =
      Pass(*context, "AcquireWork", &v1::CoordinatorService::Stub::AcquireWork, *request, response);
  if (status.ok()) checks_.training->Acquired(*request, *response);
  return status;
}

grpc::Status CoordinatorFace::LeaveJob(Context* context, const v1::LeaveJobRequest* request,
                                       v1::LeaveJobResponse* response) {
  return Pass(*context, "LeaveJob", &v1::CoordinatorService::Stub::LeaveJob, *request, response);
}

grpc::Status CoordinatorFace::ListModelAssets(Context* context,
                                              const v1::ListModelAssetsRequest* request,
                                              v1::ListModelAssetsResponse* response) {
  return Pass(*context, "ListModelAssets", &v1::CoordinatorService::Stub::ListModelAssets, *request,
              response);
}

grpc::Status CoordinatorFace::ReadModelAsset(Context* context,
                                             const v1::ReadModelAssetRequest* request,
                                             v1::ReadModelAssetResponse* response) {
  return Pass(*context, "ReadModelAsset", &v1::CoordinatorService::Stub::ReadModelAsset, *request,
              response);
}

grpc::Status CoordinatorFace::WriteModelAsset(Context* context,
                                              const v1::WriteModelAssetRequest* request,
                                              v1::WriteModelAssetResponse* response) {
  assets_open_ = true;
  return Pass(*context, "WriteModelAsset", &v1::CoordinatorService::Stub::WriteModelAsset, *request,
              response);
}

grpc::Status CoordinatorFace::CommitModelAssets(Context* context,
                                                const v1::CommitModelAssetsRequest* request,
                                                v1::CommitModelAssetsResponse* response) {
  assets_open_ = false;
  return Pass(*context, "CommitModelAssets", &v1::CoordinatorService::Stub::CommitModelAssets,
              *request, response);
}

void CoordinatorFace::Finish() {
  if (!assets_open_) return;
  checks_.verdicts.Add({.chapter = Chapter::kModels,
                        .call = "CommitModelAssets",
                        .where = "",
                        .field = "model",
                        .found = "never committed after WriteModelAsset",
                        .expected = "one call when all pieces are sent: what is not committed is "
                                    "dropped",
                        .section = "assets"});
}

}  // namespace dslide::cli
