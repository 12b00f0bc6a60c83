// The part of CoordinatorClient about checkpoints.

#include <utility>

#include "client/cpp/coordinator_client_impl.h"
#include "core/base/status_macros.h"
#include "core/wire/cluster_status_codec.h"

namespace dslide {
absl::StatusOr<CheckpointSize> CoordinatorClient::CreateCheckpoint(const std::string& model,
                                                                   const std::string& checkpoint,
                                                                   absl::Duration timeout) {
  v1::CreateCheckpointRequest request;
  request.set_model(model);
  request.set_checkpoint(checkpoint);
  ASSIGN_OR_RETURN(
      const v1::Operation done,
      impl_->RunOperation("CreateCheckpoint", &v1::CoordinatorService::Stub::CreateCheckpoint,
                          request, timeout, {}));
  return CheckpointSize{done.create_checkpoint().rows(), done.create_checkpoint().bytes()};
}

absl::StatusOr<int64_t> CoordinatorClient::RestoreCheckpoint(const std::string& model,
                                                             const std::string& checkpoint,
                                                             absl::Duration timeout) {
  v1::RestoreCheckpointRequest request;
  request.set_model(model);
  request.set_checkpoint(checkpoint);
  ASSIGN_OR_RETURN(
      const v1::Operation done,
      impl_->RunOperation("RestoreCheckpoint", &v1::CoordinatorService::Stub::RestoreCheckpoint,
                          request, timeout, {}));
  return done.restore_checkpoint().rows();
}

absl::StatusOr<ClusterCheckpoint> CoordinatorClient::CreateClusterCheckpoint(
    absl::Duration timeout, const OperationWatch& watch) {
  ASSIGN_OR_RETURN(const v1::Operation done,
                   impl_->RunOperation("CreateClusterCheckpoint",
                                       &v1::CoordinatorService::Stub::CreateClusterCheckpoint,
                                       v1::CreateClusterCheckpointRequest(), timeout, watch));
  return wire::DecodeClusterCheckpoint(done.create_cluster_checkpoint());
}

absl::StatusOr<std::vector<ClusterCheckpoint>> CoordinatorClient::ListClusterCheckpoints() {
  std::vector<ClusterCheckpoint> checkpoints;
  v1::ListClusterCheckpointsRequest request;
  do {
    ASSIGN_OR_RETURN(
        v1::ListClusterCheckpointsResponse response,
        impl_->Call("ListClusterCheckpoints", &v1::CoordinatorService::Stub::ListClusterCheckpoints,
                    request, impl_->options.timeout, true));
    for (const v1::ClusterCheckpoint& checkpoint : response.checkpoints()) {
      checkpoints.push_back(wire::DecodeClusterCheckpoint(checkpoint));
    }
    request.set_page_token(std::move(*response.mutable_next_page_token()));
  } while (!request.page_token().empty());
  return checkpoints;
}

absl::StatusOr<uint64_t> CoordinatorClient::VerifyClusterCheckpoint(uint64_t checkpoint_id,
                                                                    absl::Duration timeout,
                                                                    const OperationWatch& watch) {
  v1::VerifyClusterCheckpointRequest request;
  request.set_checkpoint_id(checkpoint_id);
  ASSIGN_OR_RETURN(const v1::Operation done,
                   impl_->RunOperation("VerifyClusterCheckpoint",
                                       &v1::CoordinatorService::Stub::VerifyClusterCheckpoint,
                                       request, timeout, watch));
  return done.verify_cluster_checkpoint().checkpoint_id();
}

absl::StatusOr<RestoredCheckpoint> CoordinatorClient::RestoreClusterCheckpoint(
    uint64_t checkpoint_id, absl::Duration timeout, const OperationWatch& watch) {
  v1::RestoreClusterCheckpointRequest request;
  request.set_checkpoint_id(checkpoint_id);
  ASSIGN_OR_RETURN(const v1::Operation done,
                   impl_->RunOperation("RestoreClusterCheckpoint",
                                       &v1::CoordinatorService::Stub::RestoreClusterCheckpoint,
                                       request, timeout, watch));
  const v1::ClusterCheckpointRestored& restored = done.restore_cluster_checkpoint();
  return RestoredCheckpoint{.checkpoint_id = restored.checkpoint_id(),
                            .skipped = {restored.skipped().begin(), restored.skipped().end()}};
}

absl::StatusOr<std::string> CoordinatorClient::GetClusterCheckpointManifest(
    uint64_t checkpoint_id) {
  v1::GetClusterCheckpointManifestRequest request;
  request.set_checkpoint_id(checkpoint_id);
  ASSIGN_OR_RETURN(v1::GetClusterCheckpointManifestResponse response,
                   impl_->Call("GetClusterCheckpointManifest",
                               &v1::CoordinatorService::Stub::GetClusterCheckpointManifest, request,
                               impl_->options.timeout, true));
  return std::move(*response.mutable_manifest());
}

absl::StatusOr<uint64_t> CoordinatorClient::AdoptClusterCheckpoint(const std::string& manifest,
                                                                   absl::Duration timeout,
                                                                   const OperationWatch& watch) {
  v1::AdoptClusterCheckpointRequest request;
  request.set_manifest(manifest);
  ASSIGN_OR_RETURN(const v1::Operation done,
                   impl_->RunOperation("AdoptClusterCheckpoint",
                                       &v1::CoordinatorService::Stub::AdoptClusterCheckpoint,
                                       request, timeout, watch));
  return done.adopt_cluster_checkpoint().checkpoint_id();
}

absl::StatusOr<std::vector<uint64_t>> CoordinatorClient::PruneClusterCheckpoints(uint32_t keep) {
  v1::PruneClusterCheckpointsRequest request;
  request.set_keep(keep);
  ASSIGN_OR_RETURN(
      const v1::PruneClusterCheckpointsResponse response,
      impl_->Call("PruneClusterCheckpoints", &v1::CoordinatorService::Stub::PruneClusterCheckpoints,
                  request, impl_->options.timeout, true));
  return std::vector<uint64_t>(response.removed().begin(), response.removed().end());
}

}  // namespace dslide
