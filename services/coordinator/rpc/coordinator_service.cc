#include "services/coordinator/rpc/coordinator_service.h"

#include <algorithm>
#include <set>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/base/version.h"
#include "core/protocol/reason_words.h"
#include "core/spec/retired_labels.h"
#include "core/wire/cluster_codec.h"
#include "core/wire/cluster_status_codec.h"
#include "core/wire/control_codec.h"
#include "core/wire/durations.h"
#include "core/wire/envelope_codec.h"
#include "core/wire/model_spec_codec.h"
#include "services/common/unary.h"
#include "services/coordinator/rpc/page.h"

namespace dslide::coordinator {
namespace {

// How long calls to shards may take when the caller sets no deadline, and at most.
constexpr absl::Duration kModelTimeout = absl::Minutes(10);
// Lists of a request; a client that needs more is not one of ours.
constexpr int kMaxLeaseList = 4096;
constexpr int kMaxModelList = 1024;
constexpr char kModelList[] = "models";

absl::Status CheckListSize(const char* field, int size, int max) {
  if (size <= max) return absl::OkStatus();
  return StatusWithReason(absl::StatusCode::kInvalidArgument, reason::kOverLimit,
                          absl::StrCat(field, " has ", size, " entries; at most ", max));
}

// The slots that were asked for, or those of the registered models.
absl::Status DealSlots(const v1::GetClusterMapRequest& request, const Coordinator& coordinator,
                       ClusterMap& map) {
  const std::vector<double> weights = CapacityWeights(map.shards);
  RETURN_IF_ERROR(CheckListSize("num_slots", request.num_slots_size(), kMaxModelTables));
  std::vector<int64_t> wanted(request.num_slots().begin(), request.num_slots().end());
  if (wanted.empty()) {
    std::set<int64_t> known;
    for (const ModelSpec& spec : coordinator.registry().ListModels()) {
      for (const TableSpec& table : spec.tables) known.insert(table.num_slots);
    }
    wanted.assign(known.begin(), known.end());
  }
  for (const int64_t num_slots : wanted) {
    absl::StatusOr<SlotMap> slots = SlotMap::Deal(num_slots, weights);
    if (!slots.ok()) {
      return StatusWithReason(absl::StatusCode::kInvalidArgument, reason::kOutOfRange,
                              absl::StrCat("num_slots: ", slots.status().message()));
    }
    map.slots.push_back(*std::move(slots));
  }
  return absl::OkStatus();
}

}  // namespace

CoordinatorServiceImpl::CoordinatorServiceImpl(Coordinator* coordinator, Operations* operations,
                                               Metrics* metrics, const std::string& job_cluster)
    : coordinator_(coordinator),
      operations_(operations),
      heartbeat_interval_(coordinator->options().membership.heartbeat_interval),
      metrics_(*metrics, "coordinator", kCoordinatorServiceName),
      jobs_(job_cluster, *metrics) {}

absl::Status CoordinatorServiceImpl::CheckJob(const grpc::ServerContext& context,
                                              const std::string& job) const {
  return jobs_.Check(jobs_.JobsOf(context), job);
}

absl::Status CoordinatorServiceImpl::CheckModel(const grpc::ServerContext& context,
                                                const std::string& model) const {
  if (!jobs_.JobsOf(context).bound()) return absl::OkStatus();
  std::vector<std::string> working;
  for (const JobStatus& job : coordinator_->jobs().List()) {
    if (job.model == model) working.push_back(job.job);
  }
  return jobs_.CheckModel(context, model, working);
}

absl::Status CoordinatorServiceImpl::DoRegisterShard(const v1::RegisterShardRequest& request,
                                                     v1::RegisterShardResponse* response) {
  RETURN_IF_ERROR(CheckListSize("models", request.models_size(), kMaxModelList));
  std::vector<ModelSpec> models;
  for (const v1::ModelSpec& spec : request.models()) {
    ASSIGN_OR_RETURN(ModelSpec model, wire::DecodeModelSpec(spec, /*sizes_known=*/true));
    models.push_back(std::move(model));
  }
  ShardRegistration registration{.wanted = std::nullopt,
                                 .address = request.address(),
                                 .capacity_weight = request.capacity_weight(),
                                 .instance_id = request.instance_id(),
                                 .admin_address = request.admin_address()};
  if (request.shard_id() != -1) registration.wanted = ShardId(request.shard_id());
  ASSIGN_OR_RETURN(const Ownership owner, coordinator_->registry().Register(registration, models));
  response->set_shard_id(owner.shard.value());
  response->set_generation(owner.generation);
  response->set_rollback_pending(owner.rollback_pending);
  wire::EncodeDuration(heartbeat_interval_, response->mutable_heartbeat_interval());
  return absl::OkStatus();
}

grpc::Status CoordinatorServiceImpl::RegisterShard(grpc::ServerContext* context,
                                                   const v1::RegisterShardRequest* request,
                                                   v1::RegisterShardResponse* response) {
  return RunUnary(metrics_.method("RegisterShard"), *context, *request, response,
                  [&] { return DoRegisterShard(*request, response); });
}

grpc::Status CoordinatorServiceImpl::Heartbeat(grpc::ServerContext* context,
                                               const v1::HeartbeatRequest* request,
                                               v1::HeartbeatResponse* response) {
  return RunUnary(metrics_.method("Heartbeat"), *context, *request, response,
                  [&]() -> absl::Status {
                    ASSIGN_OR_RETURN(const HeartbeatAnswer answer,
                                     coordinator_->registry().Heartbeat(
                                         ShardId(request->shard_id()), request->generation(),
                                         request->memory_bytes(), request->applied_commands()));
                    response->set_topology_version(answer.topology_version);
                    response->set_rollback_pending(answer.rollback_pending);
                    return absl::OkStatus();
                  });
}

grpc::Status CoordinatorServiceImpl::DeregisterShard(grpc::ServerContext* context,
                                                     const v1::DeregisterShardRequest* request,
                                                     v1::DeregisterShardResponse* response) {
  return RunUnary(metrics_.method("DeregisterShard"), *context, *request, response, [&] {
    return coordinator_->registry().Deregister(ShardId(request->shard_id()), request->generation(),
                                               request->log_failed());
  });
}

grpc::Status CoordinatorServiceImpl::GetClusterMap(grpc::ServerContext* context,
                                                   const v1::GetClusterMapRequest* request,
                                                   v1::GetClusterMapResponse* response) {
  return RunUnary(metrics_.method("GetClusterMap"), *context, *request, response,
                  [&]() -> absl::Status {
                    ASSIGN_OR_RETURN(ClusterMap map, coordinator_->registry().Map());
                    RETURN_IF_ERROR(DealSlots(*request, *coordinator_, map));
                    wire::EncodeClusterMap(map, response);
                    return absl::OkStatus();
                  });
}

grpc::Status CoordinatorServiceImpl::RegisterModel(grpc::ServerContext* context,
                                                   const v1::RegisterModelRequest* request,
                                                   v1::RegisterModelResponse* response) {
  return RunUnary(
      metrics_.method("RegisterModel"), *context, *request, response, [&]() -> absl::Status {
        ASSIGN_OR_RETURN(const ModelSpec spec,
                         wire::DecodeModelSpec(request->spec(), /*sizes_known=*/true));
        ASSIGN_OR_RETURN(const bool created,
                         coordinator_->RegisterModel(spec, RemainingTime(*context, kModelTimeout)));
        response->set_created(created);
        return absl::OkStatus();
      });
}

absl::Status CoordinatorServiceImpl::DoListModels(const v1::ListModelsRequest& request,
                                                  v1::ListModelsResponse* response) const {
  ASSIGN_OR_RETURN(const Page page,
                   DecodePage(kModelList, request.page_size(), request.page_token()));
  PageMeter meter(page.size);
  for (const ModelSpec& spec : coordinator_->registry().ListModels()) {
    if (spec.name <= page.after) continue;
    if (meter.full()) {
      const std::string& last = response->models().rbegin()->name();
      response->set_next_page_token(EncodePageToken(kModelList, last));
      break;
    }
    v1::ModelSpec* const added = response->add_models();
    wire::EncodeModelSpec(spec, added);
    meter.Add(*added);
  }
  return absl::OkStatus();
}

grpc::Status CoordinatorServiceImpl::ListModels(grpc::ServerContext* context,
                                                const v1::ListModelsRequest* request,
                                                v1::ListModelsResponse* response) {
  return RunUnary(metrics_.method("ListModels"), *context, *request, response,
                  [&] { return DoListModels(*request, response); });
}

grpc::Status CoordinatorServiceImpl::GrowModel(grpc::ServerContext* context,
                                               const v1::GrowModelRequest* request,
                                               v1::GrowModelResponse* response) {
  return RunUnary(
      metrics_.method("GrowModel"), *context, *request, response, [&]() -> absl::Status {
        ASSIGN_OR_RETURN(const ModelGrowth growth,
                         coordinator_->GrowModel({.model = request->model(),
                                                  .growth = {.table = request->table(),
                                                             .rows = request->rows(),
                                                             .labels = request->labels()},
                                                  .dry_run = request->dry_run()},
                                                 RemainingTime(*context, kModelTimeout)));
        wire::EncodeModelSpec(growth.spec, response->mutable_spec());
        response->set_rows_before(growth.rows_before);
        return absl::OkStatus();
      });
}

grpc::Status CoordinatorServiceImpl::RetireLabels(grpc::ServerContext* context,
                                                  const v1::RetireLabelsRequest* request,
                                                  v1::RetireLabelsResponse* response) {
  return RunUnary(
      metrics_.method("RetireLabels"), *context, *request, response, [&]() -> absl::Status {
        absl::StatusOr<RetiredLabels> labels = RetiredLabels::Parse(request->labels());
        if (!labels.ok() || labels->empty()) {
          return StatusWithReason(absl::StatusCode::kInvalidArgument, reason::kBadRowId,
                                  labels.ok()
                                      ? "labels: names none, as 3,7-12"
                                      : absl::StrCat("labels: ", labels.status().message()));
        }
        ASSIGN_OR_RETURN(const ModelRetirement retirement,
                         coordinator_->RetireLabels({.model = request->model(),
                                                     .labels = *std::move(labels),
                                                     .restore = request->restore(),
                                                     .dry_run = request->dry_run()},
                                                    RemainingTime(*context, kModelTimeout)));
        wire::EncodeModelSpec(retirement.spec, response->mutable_spec());
        response->set_retired_before(retirement.retired_before);
        response->set_retired(retirement.retired);
        return absl::OkStatus();
      });
}

grpc::Status CoordinatorServiceImpl::UnregisterModel(grpc::ServerContext* context,
                                                     const v1::UnregisterModelRequest* request,
                                                     v1::UnregisterModelResponse* response) {
  return RunUnary(metrics_.method("UnregisterModel"), *context, *request, response, [&] {
    return coordinator_->UnregisterModel(request->model(), request->force(),
                                         RemainingTime(*context, kModelTimeout));
  });
}

void CoordinatorServiceImpl::DoGetClusterStatus(v1::GetClusterStatusResponse* response) {
  ClusterStatus status = coordinator_->Status();
  status.version = Version();
  status.revision = Revision();
  for (const OperationView& operation : operations_->List()) {
    if (!operation.status.done) status.operations.push_back(operation.status);
  }
  wire::EncodeClusterStatus(status, response);
}

grpc::Status CoordinatorServiceImpl::GetClusterStatus(grpc::ServerContext* context,
                                                      const v1::GetClusterStatusRequest* request,
                                                      v1::GetClusterStatusResponse* response) {
  return RunUnary(metrics_.method("GetClusterStatus"), *context, *request, response, [&] {
    DoGetClusterStatus(response);
    return absl::OkStatus();
  });
}

grpc::Status CoordinatorServiceImpl::RegisterJob(grpc::ServerContext* context,
                                                 const v1::RegisterJobRequest* request,
                                                 v1::RegisterJobResponse* response) {
  return RunUnary(metrics_.method("RegisterJob"), *context, *request, response,
                  [&]() -> absl::Status {
                    RETURN_IF_ERROR(CheckJob(*context, request->spec().job()));
                    ASSIGN_OR_RETURN(const ClientId client,
                                     wire::DecodeClientId("client_id", request->client_id()));
                    ASSIGN_OR_RETURN(const JobSpec spec, wire::DecodeJobSpec(request->spec()));
                    ASSIGN_OR_RETURN(const bool created, coordinator_->RegisterJob(spec, client));
                    response->set_created(created);
                    return absl::OkStatus();
                  });
}

absl::Status CoordinatorServiceImpl::DoAcquireWork(const v1::AcquireWorkRequest& request,
                                                   v1::AcquireWorkResponse* response) {
  RETURN_IF_ERROR(CheckListSize("finished", request.finished_size(), kMaxLeaseList));
  RETURN_IF_ERROR(CheckListSize("held", request.held_size(), kMaxLeaseList));
  ASSIGN_OR_RETURN(const WorkRequest work, wire::DecodeWorkRequest(request));
  ASSIGN_OR_RETURN(const Work next, coordinator_->jobs().Acquire(work));
  wire::EncodeWork(next, response);
  return absl::OkStatus();
}

grpc::Status CoordinatorServiceImpl::AcquireWork(grpc::ServerContext* context,
                                                 const v1::AcquireWorkRequest* request,
                                                 v1::AcquireWorkResponse* response) {
  return RunUnary(metrics_.method("AcquireWork"), *context, *request, response,
                  [&]() -> absl::Status {
                    RETURN_IF_ERROR(CheckJob(*context, request->job()));
                    return DoAcquireWork(*request, response);
                  });
}

grpc::Status CoordinatorServiceImpl::LeaveJob(grpc::ServerContext* context,
                                              const v1::LeaveJobRequest* request,
                                              v1::LeaveJobResponse* response) {
  return RunUnary(metrics_.method("LeaveJob"), *context, *request, response, [&]() -> absl::Status {
    RETURN_IF_ERROR(CheckJob(*context, request->job()));
    ASSIGN_OR_RETURN(const ClientId client,
                     wire::DecodeClientId("client_id", request->client_id()));
    return coordinator_->jobs().Leave(request->job(), client);
  });
}

grpc::Status CoordinatorServiceImpl::CancelJob(grpc::ServerContext* context,
                                               const v1::CancelJobRequest* request,
                                               v1::CancelJobResponse* response) {
  return RunUnary(
      metrics_.method("CancelJob"), *context, *request, response, [&]() -> absl::Status {
        ASSIGN_OR_RETURN(const JobStatus job, coordinator_->jobs().Cancel(request->job()));
        wire::EncodeJobStatus(job, response->mutable_job());
        return absl::OkStatus();
      });
}

grpc::Status CoordinatorServiceImpl::DeleteJob(grpc::ServerContext* context,
                                               const v1::DeleteJobRequest* request,
                                               v1::DeleteJobResponse* response) {
  return RunUnary(metrics_.method("DeleteJob"), *context, *request, response,
                  [&] { return coordinator_->jobs().Delete(request->job()); });
}

}  // namespace dslide::coordinator
