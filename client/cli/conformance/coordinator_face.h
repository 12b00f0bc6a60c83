// The coordinator as the client of the course sees it: its map names the shards' faces.

#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/server_context.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "client/cli/conformance/course_checks.h"
#include "client/cli/conformance/forwarded_call.h"
#include "client/cli/conformance/shard_face.h"
#include "dslide/v1/coordinator.grpc.pb.h"

namespace dslide::cli {

// Where a client finds a shard's face.
struct FaceAddress {
  const ShardFace* face = nullptr;
  std::string address;
};

// Calls on cluster checkpoints are UNIMPLEMENTED: they are the operator's.
//
// Thread safety: safe from any thread. Handlers block.
class CoordinatorFace final : public v1::CoordinatorService::Service {
 public:
  using Context = grpc::ServerContext;

  // `checks` and the faces outlive it. shards: by ordinal.
  CoordinatorFace(const std::shared_ptr<grpc::Channel>& channel, std::vector<FaceAddress> shards,
                  CourseChecks& checks);

  // The client is done.
  void Finish();

  grpc::Status GetClusterMap(Context* context, const v1::GetClusterMapRequest* request,
                             v1::GetClusterMapResponse* response) override;
  grpc::Status GetClusterStatus(Context* context, const v1::GetClusterStatusRequest* request,
                                v1::GetClusterStatusResponse* response) override;
  grpc::Status RegisterModel(Context* context, const v1::RegisterModelRequest* request,
                             v1::RegisterModelResponse* response) override;
  grpc::Status ListModels(Context* context, const v1::ListModelsRequest* request,
                          v1::ListModelsResponse* response) override;
  grpc::Status RegisterJob(Context* context, const v1::RegisterJobRequest* request,
                           v1::RegisterJobResponse* response) override;
  grpc::Status AcquireWork(Context* context, const v1::AcquireWorkRequest* request,
                           v1::AcquireWorkResponse* response) override;
  grpc::Status LeaveJob(Context* context, const v1::LeaveJobRequest* request,
                        v1::LeaveJobResponse* response) override;
  grpc::Status ListModelAssets(Context* context, const v1::ListModelAssetsRequest* request,
                               v1::ListModelAssetsResponse* response) override;
  grpc::Status ReadModelAsset(Context* context, const v1::ReadModelAssetRequest* request,
                              v1::ReadModelAssetResponse* response) override;
  grpc::Status WriteModelAsset(Context* context, const v1::WriteModelAssetRequest* request,
                               v1::WriteModelAssetResponse* response) override;
  grpc::Status CommitModelAssets(Context* context, const v1::CommitModelAssetsRequest* request,
                                 v1::CommitModelAssetsResponse* response) override;

 private:
  template <typename Request, typename Response>
  grpc::Status Pass(const Context& context, absl::string_view call,
                    UnaryMethod<v1::CoordinatorService::Stub, Request, Response> method,
                    const Request& request, Response* response);
  template <typename Shards>
  void ShowFaces(Shards* shards) const;

  CourseChecks& checks_;
  const std::unique_ptr<v1::CoordinatorService::Stub> stub_;
  const std::vector<FaceAddress> shards_;
  std::atomic<bool> formed_ = false;       // the map was asked for once
  std::atomic<bool> assets_open_ = false;  // written and not committed
};

}  // namespace dslide::cli
