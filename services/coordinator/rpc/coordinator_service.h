// dslide.v1.CoordinatorService: translation between the wire and the Coordinator.

#pragma once

#include <grpcpp/server_context.h>

#include <string>

#include "core/net/metrics/metrics.h"
#include "dslide/v1/coordinator.grpc.pb.h"
#include "services/common/rpc_metrics.h"
#include "services/common/server/job_guard.h"
#include "services/coordinator/control/coordinator.h"
#include "services/coordinator/operations/operations.h"

namespace dslide::coordinator {

inline constexpr char kCoordinatorServiceName[] = "dslide.v1.CoordinatorService";

// Thread safety: safe from any thread (gRPC calls it from its pool).
class CoordinatorServiceImpl final : public v1::CoordinatorService::Service {
 public:
  // The pointers outlive the service. job_cluster: where certificates' jobs count (JobGuard).
  CoordinatorServiceImpl(Coordinator* coordinator, Operations* operations, Metrics* metrics,
                         const std::string& job_cluster);

  // Calls that have no answer yet.
  int64_t running_calls() const { return metrics_.running(); }

  grpc::Status RegisterShard(grpc::ServerContext* context, const v1::RegisterShardRequest* request,
                             v1::RegisterShardResponse* response) override;
  grpc::Status Heartbeat(grpc::ServerContext* context, const v1::HeartbeatRequest* request,
                         v1::HeartbeatResponse* response) override;
  grpc::Status DeregisterShard(grpc::ServerContext* context,
                               const v1::DeregisterShardRequest* request,
                               v1::DeregisterShardResponse* response) override;
  grpc::Status GetClusterMap(grpc::ServerContext* context, const v1::GetClusterMapRequest* request,
                             v1::GetClusterMapResponse* response) override;
  grpc::Status RegisterModel(grpc::ServerContext* context, const v1::RegisterModelRequest* request,
                             v1::RegisterModelResponse* response) override;
  grpc::Status ListModels(grpc::ServerContext* context, const v1::ListModelsRequest* request,
                          v1::ListModelsResponse* response) override;
  grpc::Status RetireLabels(grpc::ServerContext* context, const v1::RetireLabelsRequest* request,
                            v1::RetireLabelsResponse* response) override;
  grpc::Status GrowModel(grpc::ServerContext* context, const v1::GrowModelRequest* request,
                         v1::GrowModelResponse* response) override;
  grpc::Status UnregisterModel(grpc::ServerContext* context,
                               const v1::UnregisterModelRequest* request,
                               v1::UnregisterModelResponse* response) override;
  grpc::Status ListModelAssets(grpc::ServerContext* context,
                               const v1::ListModelAssetsRequest* request,
                               v1::ListModelAssetsResponse* response) override;
  grpc::Status ReadModelAsset(grpc::ServerContext* context,
                              const v1::ReadModelAssetRequest* request,
                              v1::ReadModelAssetResponse* response) override;
  grpc::Status WriteModelAsset(grpc::ServerContext* context,
                               const v1::WriteModelAssetRequest* request,
                               v1::WriteModelAssetResponse* response) override;
  grpc::Status CommitModelAssets(grpc::ServerContext* context,
                                 const v1::CommitModelAssetsRequest* request,
                                 v1::CommitModelAssetsResponse* response) override;
  grpc::Status GetClusterStatus(grpc::ServerContext* context,
                                const v1::GetClusterStatusRequest* request,
                                v1::GetClusterStatusResponse* response) override;
  grpc::Status RegisterJob(grpc::ServerContext* context, const v1::RegisterJobRequest* request,
                           v1::RegisterJobResponse* response) override;
  grpc::Status AcquireWork(grpc::ServerContext* context, const v1::AcquireWorkRequest* request,
                           v1::AcquireWorkResponse* response) override;
  grpc::Status LeaveJob(grpc::ServerContext* context, const v1::LeaveJobRequest* request,
                        v1::LeaveJobResponse* response) override;
  grpc::Status CancelJob(grpc::ServerContext* context, const v1::CancelJobRequest* request,
                         v1::CancelJobResponse* response) override;
  grpc::Status DeleteJob(grpc::ServerContext* context, const v1::DeleteJobRequest* request,
                         v1::DeleteJobResponse* response) override;
  grpc::Status CreateCheckpoint(grpc::ServerContext* context,
                                const v1::CreateCheckpointRequest* request,
                                v1::CreateCheckpointResponse* response) override;
  grpc::Status RestoreCheckpoint(grpc::ServerContext* context,
                                 const v1::RestoreCheckpointRequest* request,
                                 v1::RestoreCheckpointResponse* response) override;
  grpc::Status GetOperation(grpc::ServerContext* context, const v1::GetOperationRequest* request,
                            v1::GetOperationResponse* response) override;
  grpc::Status ListOperations(grpc::ServerContext* context,
                              const v1::ListOperationsRequest* request,
                              v1::ListOperationsResponse* response) override;
  grpc::Status CancelOperation(grpc::ServerContext* context,
                               const v1::CancelOperationRequest* request,
                               v1::CancelOperationResponse* response) override;
  grpc::Status CreateClusterCheckpoint(grpc::ServerContext* context,
                                       const v1::CreateClusterCheckpointRequest* request,
                                       v1::CreateClusterCheckpointResponse* response) override;
  grpc::Status ListClusterCheckpoints(grpc::ServerContext* context,
                                      const v1::ListClusterCheckpointsRequest* request,
                                      v1::ListClusterCheckpointsResponse* response) override;
  grpc::Status VerifyClusterCheckpoint(grpc::ServerContext* context,
                                       const v1::VerifyClusterCheckpointRequest* request,
                                       v1::VerifyClusterCheckpointResponse* response) override;
  grpc::Status RestoreClusterCheckpoint(grpc::ServerContext* context,
                                        const v1::RestoreClusterCheckpointRequest* request,
                                        v1::RestoreClusterCheckpointResponse* response) override;
  grpc::Status PruneClusterCheckpoints(grpc::ServerContext* context,
                                       const v1::PruneClusterCheckpointsRequest* request,
                                       v1::PruneClusterCheckpointsResponse* response) override;
  grpc::Status GetClusterCheckpointManifest(
      grpc::ServerContext* context, const v1::GetClusterCheckpointManifestRequest* request,
      v1::GetClusterCheckpointManifestResponse* response) override;
  grpc::Status AdoptClusterCheckpoint(grpc::ServerContext* context,
                                      const v1::AdoptClusterCheckpointRequest* request,
                                      v1::AdoptClusterCheckpointResponse* response) override;

 private:
  absl::Status DoRegisterShard(const v1::RegisterShardRequest& request,
                               v1::RegisterShardResponse* response);
  absl::Status DoAcquireWork(const v1::AcquireWorkRequest& request,
                             v1::AcquireWorkResponse* response);
  // Whether the caller may work for the job, or act on the model. Errors: those of JobGuard.
  absl::Status CheckJob(const grpc::ServerContext& context, const std::string& job) const;
  absl::Status CheckModel(const grpc::ServerContext& context, const std::string& model) const;
  void DoGetClusterStatus(v1::GetClusterStatusResponse* response);
  absl::Status DoListModels(const v1::ListModelsRequest& request,
                            v1::ListModelsResponse* response) const;
  absl::Status DoListClusterCheckpoints(const v1::ListClusterCheckpointsRequest& request,
                                        v1::ListClusterCheckpointsResponse* response);
  absl::Status DoListOperations(const v1::ListOperationsRequest& request,
                                v1::ListOperationsResponse* response) const;
  // Answers with an operation that does the work.
  template <typename Response>
  absl::Status StartOperation(const OperationRequest& request, Operations::Work work,
                              Response* response);

  Coordinator* const coordinator_;
  Operations* const operations_;
  const absl::Duration heartbeat_interval_;
  const RpcMetrics metrics_;
  const JobGuard jobs_;
};

}  // namespace dslide::coordinator
