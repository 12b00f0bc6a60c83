// The calls of models' assets.

#include "core/base/status_macros.h"
#include "services/common/unary.h"
#include "services/coordinator/rpc/coordinator_service.h"

namespace dslide::coordinator {

grpc::Status CoordinatorServiceImpl::ListModelAssets(grpc::ServerContext* context,
                                                     const v1::ListModelAssetsRequest* request,
                                                     v1::ListModelAssetsResponse* response) {
  return RunUnary(
      metrics_.method("ListModelAssets"), *context, *request, response, [&]() -> absl::Status {
        ASSIGN_OR_RETURN(const FileList list, coordinator_->ListAssets(request->model()));
        response->set_checksum(list.checksum);
        for (const ListedFile& file : list.files) {
          v1::ModelAsset* const asset = response->add_assets();
          asset->set_name(file.path);
          asset->set_bytes(file.bytes);
          asset->set_crc32c(file.crc);
        }
        return absl::OkStatus();
      });
}

grpc::Status CoordinatorServiceImpl::ReadModelAsset(grpc::ServerContext* context,
                                                    const v1::ReadModelAssetRequest* request,
                                                    v1::ReadModelAssetResponse* response) {
  return RunUnary(
      metrics_.method("ReadModelAsset"), *context, *request, response, [&]() -> absl::Status {
        ASSIGN_OR_RETURN(*response->mutable_data(),
                         coordinator_->assets().Read({request->model(), request->checksum()},
                                                     request->name(), request->offset()));
        return absl::OkStatus();
      });
}

grpc::Status CoordinatorServiceImpl::WriteModelAsset(grpc::ServerContext* context,
                                                     const v1::WriteModelAssetRequest* request,
                                                     v1::WriteModelAssetResponse* response) {
  return RunUnary(
      metrics_.method("WriteModelAsset"), *context, *request, response, [&]() -> absl::Status {
        RETURN_IF_ERROR(CheckModel(*context, request->model()));
        return coordinator_->assets().Write({request->model(), request->checksum()},
                                            request->name(), request->offset(), request->data());
      });
}

grpc::Status CoordinatorServiceImpl::CommitModelAssets(grpc::ServerContext* context,
                                                       const v1::CommitModelAssetsRequest* request,
                                                       v1::CommitModelAssetsResponse* response) {
  return RunUnary(
      metrics_.method("CommitModelAssets"), *context, *request, response, [&]() -> absl::Status {
        RETURN_IF_ERROR(CheckModel(*context, request->model()));
        const std::optional<uint32_t> replaces =
            request->has_replaces() ? std::optional(request->replaces()) : std::nullopt;
        ASSIGN_OR_RETURN(
            const bool created,
            coordinator_->CommitAssets({request->model(), request->checksum()}, replaces));
        response->set_created(created);
        return absl::OkStatus();
      });
}

}  // namespace dslide::coordinator
