#include "client/cpp/coordinator_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/channel_factory.h"
#include "client/cpp/coordinator_client_impl.h"
#include "client/cpp/grpc_status.h"
#include "core/base/status_macros.h"
#include "core/system/file_list.h"
#include "core/wire/cluster_codec.h"
#include "core/wire/cluster_status_codec.h"
#include "core/wire/envelope_codec.h"
#include "core/wire/model_spec_codec.h"

namespace dslide {
CoordinatorClient::CoordinatorClient(const std::shared_ptr<grpc::Channel>& channel,
                                     std::string address, ClientOptions options,
                                     WireCounters* counters)
    : impl_(std::make_unique<Impl>()) {
  KeepCallbackQueue();
  impl_->peer = absl::StrCat("coordinator at ", address);
  impl_->remedy = absl::StrCat("start the coordinator (dslide up, or dslide-coordinator --listen ",
                               address, "), name the address of one that runs, or raise --timeout");
  impl_->address = std::move(address);
  impl_->options = std::move(options);
  impl_->stub = v1::CoordinatorService::NewStub(channel);
  impl_->counters = counters;
}

CoordinatorClient::~CoordinatorClient() = default;

const std::string& CoordinatorClient::address() const { return impl_->address; }

absl::StatusOr<ClusterMap> CoordinatorClient::GetClusterMap(absl::Span<const int64_t> num_slots) {
  v1::GetClusterMapRequest request;
  request.mutable_num_slots()->Add(num_slots.begin(), num_slots.end());
  ASSIGN_OR_RETURN(const v1::GetClusterMapResponse response,
                   impl_->Call("GetClusterMap", &v1::CoordinatorService::Stub::GetClusterMap,
                               request, impl_->options.timeout, true));
  absl::StatusOr<ClusterMap> map = wire::DecodeClusterMap(response);
  if (!map.ok()) {
    return absl::InternalError(absl::StrCat(impl_->peer, " answered ", map.status().message()));
  }
  for (size_t i = 0; i < num_slots.size(); ++i) {
    if (i < map->slots.size() && map->slots[i].num_slots() == num_slots[i]) continue;
    return absl::InternalError(
        absl::StrCat(impl_->peer, " did not answer the owners of ", num_slots[i], " slots"));
  }
  return map;
}

absl::StatusOr<ClusterStatus> CoordinatorClient::GetClusterStatus() {
  ASSIGN_OR_RETURN(const v1::GetClusterStatusResponse response,
                   impl_->Call("GetClusterStatus", &v1::CoordinatorService::Stub::GetClusterStatus,
                               v1::GetClusterStatusRequest(), impl_->options.timeout, true));
  return wire::DecodeClusterStatus(response);
}

absl::StatusOr<bool> CoordinatorClient::RegisterModel(const ModelSpec& spec) {
  v1::RegisterModelRequest request;
  wire::EncodeModelSpec(spec, request.mutable_spec());
  ASSIGN_OR_RETURN(const v1::RegisterModelResponse response,
                   impl_->Call("RegisterModel", &v1::CoordinatorService::Stub::RegisterModel,
                               request, impl_->options.timeout, true));
  return response.created();
}

absl::StatusOr<std::vector<ModelSpec>> CoordinatorClient::ListModels() {
  std::vector<ModelSpec> models;
  v1::ListModelsRequest request;
  do {
    ASSIGN_OR_RETURN(v1::ListModelsResponse response,
                     impl_->Call("ListModels", &v1::CoordinatorService::Stub::ListModels, request,
                                 impl_->options.timeout, true));
    for (const v1::ModelSpec& model : response.models()) {
      ASSIGN_OR_RETURN(ModelSpec spec, wire::DecodeModelSpec(model, /*sizes_known=*/true));
      models.push_back(std::move(spec));
    }
    request.set_page_token(std::move(*response.mutable_next_page_token()));
  } while (!request.page_token().empty());
  return models;
}

absl::StatusOr<ModelSpec> CoordinatorClient::GrowModel(const std::string& model,
                                                       const Growth& growth, bool dry_run) {
  v1::GrowModelRequest request;
  request.set_model(model);
  request.set_table(growth.table);
  request.set_rows(growth.rows);
  request.set_labels(growth.labels);
  request.set_dry_run(dry_run);
  ASSIGN_OR_RETURN(const v1::GrowModelResponse response,
                   impl_->Call("GrowModel", &v1::CoordinatorService::Stub::GrowModel, request,
                               impl_->options.timeout, true));
  return wire::DecodeModelSpec(response.spec(), /*sizes_known=*/true);
}

absl::StatusOr<LabelRetirement> CoordinatorClient::RetireLabels(const std::string& model,
                                                                const std::string& labels,
                                                                bool restore, bool dry_run) {
  v1::RetireLabelsRequest request;
  request.set_model(model);
  request.set_labels(labels);
  request.set_restore(restore);
  request.set_dry_run(dry_run);
  ASSIGN_OR_RETURN(const v1::RetireLabelsResponse response,
                   impl_->Call("RetireLabels", &v1::CoordinatorService::Stub::RetireLabels, request,
                               impl_->options.timeout, true));
  LabelRetirement retirement;
  ASSIGN_OR_RETURN(retirement.spec, wire::DecodeModelSpec(response.spec(), /*sizes_known=*/true));
  retirement.retired_before = response.retired_before();
  retirement.retired = response.retired();
  return retirement;
}

absl::Status CoordinatorClient::UnregisterModel(const std::string& model, bool force) {
  v1::UnregisterModelRequest request;
  request.set_model(model);
  request.set_force(force);
  return impl_
      ->Call("UnregisterModel", &v1::CoordinatorService::Stub::UnregisterModel, request,
             impl_->options.timeout, true)
      .status();
}

absl::StatusOr<FileList> CoordinatorClient::ListModelAssets(const std::string& model) {
  v1::ListModelAssetsRequest request;
  request.set_model(model);
  ASSIGN_OR_RETURN(const v1::ListModelAssetsResponse response,
                   impl_->Call("ListModelAssets", &v1::CoordinatorService::Stub::ListModelAssets,
                               request, impl_->options.timeout, true));
  FileList list;
  list.checksum = response.checksum();
  for (const v1::ModelAsset& asset : response.assets()) {
    list.files.push_back({.path = asset.name(), .bytes = asset.bytes(), .crc = asset.crc32c()});
  }
  return list;
}

absl::StatusOr<std::string> CoordinatorClient::ReadModelAsset(const ModelAssetPlace& place) {
  v1::ReadModelAssetRequest request;
  request.set_model(place.model);
  request.set_checksum(place.checksum);
  request.set_name(place.name);
  request.set_offset(place.offset);
  ASSIGN_OR_RETURN(v1::ReadModelAssetResponse response,
                   impl_->Call("ReadModelAsset", &v1::CoordinatorService::Stub::ReadModelAsset,
                               request, impl_->options.timeout, true));
  return std::move(*response.mutable_data());
}

absl::Status CoordinatorClient::WriteModelAsset(const ModelAssetPlace& place, std::string piece) {
  v1::WriteModelAssetRequest request;
  request.set_model(place.model);
  request.set_checksum(place.checksum);
  request.set_name(place.name);
  request.set_offset(place.offset);
  request.set_data(std::move(piece));
  return impl_
      ->Call("WriteModelAsset", &v1::CoordinatorService::Stub::WriteModelAsset, request,
             impl_->options.timeout, true)
      .status();
}

absl::StatusOr<bool> CoordinatorClient::CommitModelAssets(const std::string& model,
                                                          uint32_t checksum,
                                                          std::optional<uint32_t> replaces) {
  v1::CommitModelAssetsRequest request;
  request.set_model(model);
  request.set_checksum(checksum);
  if (replaces.has_value()) request.set_replaces(*replaces);
  ASSIGN_OR_RETURN(
      const v1::CommitModelAssetsResponse response,
      impl_->Call("CommitModelAssets", &v1::CoordinatorService::Stub::CommitModelAssets, request,
                  impl_->options.timeout, true));
  return response.created();
}

absl::StatusOr<bool> CoordinatorClient::RegisterJob(const JobSpec& job, const ClientId& client) {
  v1::RegisterJobRequest request;
  wire::EncodeJobSpec(job, request.mutable_spec());
  request.set_client_id(wire::EncodeClientId(client));
  ASSIGN_OR_RETURN(const v1::RegisterJobResponse response,
                   impl_->Call("RegisterJob", &v1::CoordinatorService::Stub::RegisterJob, request,
                               impl_->options.timeout, true));
  return response.created();
}

absl::StatusOr<Work> CoordinatorClient::AcquireWork(const WorkRequest& work) {
  v1::AcquireWorkRequest request;
  wire::EncodeWorkRequest(work, &request);
  ASSIGN_OR_RETURN(const v1::AcquireWorkResponse response,
                   impl_->Call("AcquireWork", &v1::CoordinatorService::Stub::AcquireWork, request,
                               std::min(impl_->options.timeout, absl::Seconds(10)), false));
  return wire::DecodeWork(response);
}

absl::Status CoordinatorClient::LeaveJob(const std::string& job, const ClientId& client) {
  v1::LeaveJobRequest request;
  request.set_job(job);
  request.set_client_id(wire::EncodeClientId(client));
  return impl_
      ->Call("LeaveJob", &v1::CoordinatorService::Stub::LeaveJob, request,
             std::min(impl_->options.timeout, absl::Seconds(5)), false)
      .status();
}

absl::StatusOr<JobStatus> CoordinatorClient::CancelJob(const std::string& job) {
  v1::CancelJobRequest request;
  request.set_job(job);
  ASSIGN_OR_RETURN(const v1::CancelJobResponse response,
                   impl_->Call("CancelJob", &v1::CoordinatorService::Stub::CancelJob, request,
                               impl_->options.timeout, true));
  return wire::DecodeJobStatus(response.job());
}

absl::Status CoordinatorClient::DeleteJob(const std::string& job) {
  v1::DeleteJobRequest request;
  request.set_job(job);
  return impl_
      ->Call("DeleteJob", &v1::CoordinatorService::Stub::DeleteJob, request, impl_->options.timeout,
             true)
      .status();
}

}  // namespace dslide
