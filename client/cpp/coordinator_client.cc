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
#include "core/wire/cluster_codec.h"
#include "core/wire/control_codec.h"
#include "core/wire/durations.h"
#include "core/wire/envelope_codec.h"
#include "core/wire/model_spec_codec.h"

namespace dslide {
namespace {

JobProgress DecodeJob(const v1::JobStatus& status) {
  JobProgress job;
  job.job = status.job();
  job.model = status.model();
  job.epoch = status.epoch();
  job.max_epochs = status.max_epochs();
  job.samples_done = status.samples_done();
  job.samples_per_epoch = status.samples_per_epoch();
  job.trainers = status.trainers();
  job.finished = status.finished();
  job.best_epoch = status.best_epoch();
  job.best_metric = status.best_metric();
  return job;
}

}  // namespace

namespace {

absl::Status TakeSlots(const v1::GetClusterMapResponse& response,
                       absl::Span<const int64_t> num_slots, const std::string& peer,
                       ClusterMap& map) {
  for (const v1::SlotAssignment& assignment : response.slots()) {
    absl::StatusOr<SlotMap> slots = wire::DecodeSlotMap(assignment);
    if (!slots.ok() || slots->num_shards() != static_cast<int64_t>(map.shards.size())) {
      return absl::InternalError(absl::StrCat(
          peer, " answered slots that are not of its shards: ", slots.status().message()));
    }
    map.slots.push_back(*std::move(slots));
  }
  for (size_t i = 0; i < num_slots.size(); ++i) {
    if (i < map.slots.size() && map.slots[i].num_slots() == num_slots[i]) continue;
    return absl::InternalError(
        absl::StrCat(peer, " did not answer the owners of ", num_slots[i], " slots"));
  }
  return absl::OkStatus();
}

}  // namespace

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
  ClusterMap map;
  map.topology_version = response.topology_version();
  map.restore_count = response.restore_count();
  for (const v1::ShardInfo& info : response.shards())
    map.shards.push_back(wire::DecodeShardInfo(info));
  for (size_t i = 0; i < map.shards.size(); ++i) {
    if (map.shards[i].shard.value() != static_cast<int32_t>(i)) {
      return absl::InternalError(
          absl::StrCat(impl_->peer, " answered a map without shard ", i, " at its place"));
    }
  }
  if (map.shards.empty()) {
    return absl::InternalError(absl::StrCat(impl_->peer, " answered a map without shards"));
  }
  RETURN_IF_ERROR(TakeSlots(response, num_slots, impl_->peer, map));
  return map;
}

absl::StatusOr<ClusterStatus> CoordinatorClient::GetClusterStatus() {
  ASSIGN_OR_RETURN(const v1::GetClusterStatusResponse response,
                   impl_->Call("GetClusterStatus", &v1::CoordinatorService::Stub::GetClusterStatus,
                               v1::GetClusterStatusRequest(), impl_->options.timeout, true));
  ClusterStatus status;
  status.version = response.version();
  status.revision = response.revision();
  status.topology_version = response.topology_version();
  status.expected_shards = response.expected_shards();
  for (const v1::ShardInfo& info : response.shards())
    status.shards.push_back(wire::DecodeShardInfo(info));
  status.models.assign(response.models().begin(), response.models().end());
  for (const v1::JobStatus& job : response.jobs()) status.jobs.push_back(DecodeJob(job));
  for (const v1::Operation& operation : response.operations()) {
    status.operations.push_back(DecodeOperation(operation));
  }
  status.restore_count = response.restore_count();
  if (response.has_checkpoints()) {
    const v1::CheckpointStatus& checkpoints = response.checkpoints();
    status.checkpoints =
        CheckpointStatus{.last_checkpoint_id = checkpoints.last_checkpoint_id(),
                         .age = wire::DecodeDuration(checkpoints.age()),
                         .interval = wire::DecodeDuration(checkpoints.interval()),
                         .failures = checkpoints.failures(),
                         .scrub_age = wire::DecodeDuration(checkpoints.scrub_age()),
                         .scrub_interval = wire::DecodeDuration(checkpoints.scrub_interval())};
  }
  return status;
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

absl::Status CoordinatorClient::UnregisterModel(const std::string& model) {
  v1::UnregisterModelRequest request;
  request.set_model(model);
  return impl_
      ->Call("UnregisterModel", &v1::CoordinatorService::Stub::UnregisterModel, request,
             impl_->options.timeout, true)
      .status();
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

}  // namespace dslide
