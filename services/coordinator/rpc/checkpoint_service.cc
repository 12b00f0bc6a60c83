// The quick calls of cluster checkpoints; the others are operations (operation_service.cc).

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/wire/cluster_status_codec.h"
#include "services/common/unary.h"
#include "services/coordinator/rpc/coordinator_service.h"
#include "services/coordinator/rpc/page.h"

namespace dslide::coordinator {
namespace {

constexpr char kCheckpointList[] = "checkpoints";

}  // namespace

absl::Status CoordinatorServiceImpl::DoListClusterCheckpoints(
    const v1::ListClusterCheckpointsRequest& request,
    v1::ListClusterCheckpointsResponse* response) {
  ASSIGN_OR_RETURN(const NumberedPage page,
                   DecodeNumberedPage(kCheckpointList, request.page_size(), request.page_token()));
  ASSIGN_OR_RETURN(const std::vector<Manifest> manifests, coordinator_->checkpoints().List());
  PageMeter meter(page.size);
  for (const Manifest& manifest : manifests) {
    if (manifest.checkpoint_id >= page.after) continue;
    if (meter.full()) {
      const uint64_t last = response->checkpoints().rbegin()->checkpoint_id();
      response->set_next_page_token(EncodePageToken(kCheckpointList, absl::StrCat(last)));
      break;
    }
    v1::ClusterCheckpoint* const added = response->add_checkpoints();
    wire::EncodeClusterCheckpoint(SummaryOf(manifest), added);
    meter.Add(*added);
  }
  return absl::OkStatus();
}

grpc::Status CoordinatorServiceImpl::ListClusterCheckpoints(
    grpc::ServerContext* context, const v1::ListClusterCheckpointsRequest* request,
    v1::ListClusterCheckpointsResponse* response) {
  return RunUnary(metrics_.method("ListClusterCheckpoints"), *context, *request, response,
                  [&] { return DoListClusterCheckpoints(*request, response); });
}

grpc::Status CoordinatorServiceImpl::PruneClusterCheckpoints(
    grpc::ServerContext* context, const v1::PruneClusterCheckpointsRequest* request,
    v1::PruneClusterCheckpointsResponse* response) {
  return RunUnary(metrics_.method("PruneClusterCheckpoints"), *context, *request, response,
                  [&]() -> absl::Status {
                    if (request->keep() < 1) {
                      return StatusWithReason(absl::StatusCode::kInvalidArgument,
                                              reason::kOutOfRange, "keep must be at least 1");
                    }
                    ASSIGN_OR_RETURN(const std::vector<uint64_t> removed,
                                     coordinator_->checkpoints().Prune(request->keep()));
                    for (const uint64_t checkpoint_id : removed)
                      response->add_removed(checkpoint_id);
                    return absl::OkStatus();
                  });
}

grpc::Status CoordinatorServiceImpl::GetClusterCheckpointManifest(
    grpc::ServerContext* context, const v1::GetClusterCheckpointManifestRequest* request,
    v1::GetClusterCheckpointManifestResponse* response) {
  return RunUnary(metrics_.method("GetClusterCheckpointManifest"), *context, *request, response,
                  [&]() -> absl::Status {
                    ASSIGN_OR_RETURN(*response->mutable_manifest(),
                                     coordinator_->checkpoints().Text(request->checkpoint_id()));
                    ASSIGN_OR_RETURN(const Manifest manifest, DecodeManifest(response->manifest()));
                    response->set_checkpoint_id(manifest.checkpoint_id);
                    return absl::OkStatus();
                  });
}

}  // namespace dslide::coordinator
