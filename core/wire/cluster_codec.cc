#include "core/wire/cluster_codec.h"

#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/spec/model_spec_visitor.h"
#include "core/wire/control_codec.h"
#include "core/wire/durations.h"
#include "core/wire/envelope_codec.h"
#include "core/wire/message_archive.h"

namespace dslide::wire {
namespace {

template <typename T>
void EncodeFields(T fields, google::protobuf::Message* out) {
  MessageWriter writer(out);
  VisitFields(writer, fields);
}

template <typename T>
void DecodeFields(const google::protobuf::Message& message, const std::string& path,
                  absl::Status& status, T& fields) {
  MessageReader reader(message, path, &status);
  VisitFields(reader, fields);
}

v1::ShardHealth EncodeHealth(ShardHealth health) {
  switch (health) {
    case ShardHealth::kAlive:
      return v1::SHARD_HEALTH_ALIVE;
    case ShardHealth::kLost:
      return v1::SHARD_HEALTH_LOST;
    case ShardHealth::kLeft:
      return v1::SHARD_HEALTH_LEFT;
  }
  return v1::SHARD_HEALTH_UNSPECIFIED;
}

// One overload per kind of work.
struct WorkEncoder {
  v1::AcquireWorkResponse* out;

  void operator()(std::monostate) const {}
  void operator()(const ChunkWork& work) const {
    auto* const chunk = out->mutable_chunk();
    chunk->set_lease_id(work.lease);
    chunk->set_epoch(work.epoch);
    chunk->set_first(work.first);
    chunk->set_count(work.count);
  }
  void operator()(const EvaluationWork& work) const {
    auto* const evaluation = out->mutable_evaluation();
    evaluation->set_lease_id(work.lease);
    evaluation->set_epoch(work.epoch);
    evaluation->set_metric_to_beat(work.metric_to_beat);
  }
  void operator()(const StageWork& work) const {
    auto* const stage = out->mutable_stage();
    stage->set_lease_id(work.lease);
    stage->set_stage(work.stage == JobStage::kPreparation ? v1::JOB_STAGE_PREPARATION
                                                          : v1::JOB_STAGE_COMPLETION);
    stage->set_best_epoch(work.best_epoch);
    stage->set_best_metric(work.best_metric);
  }
  void operator()(const WaitForWork& work) const {
    EncodeDuration(work.pause, out->mutable_wait()->mutable_retry_after());
  }
  void operator()(const NoMoreWork& work) const {
    out->mutable_finished()->set_best_epoch(work.best_epoch);
    out->mutable_finished()->set_best_metric(work.best_metric);
    out->mutable_finished()->set_best_restored(work.best_restored);
    out->mutable_finished()->set_cancelled(work.cancelled);
  }
};

}  // namespace

void EncodeShardInfo(const ShardInfo& shard, v1::ShardInfo* out) {
  out->set_shard_id(shard.shard.value());
  out->set_address(shard.address);
  out->set_capacity_weight(shard.capacity_weight);
  out->set_generation(shard.generation);
  out->set_health(EncodeHealth(shard.health));
  out->set_memory_bytes(shard.memory_bytes);
  out->set_applied_commands(shard.applied_commands);
  out->set_admin_address(shard.admin_address);
  out->set_commands_per_second(shard.commands_per_second);
}

ShardInfo DecodeShardInfo(const v1::ShardInfo& info) {
  return {.shard = ShardId(info.shard_id()),
          .address = info.address(),
          .capacity_weight = info.capacity_weight(),
          .generation = info.generation(),
          .health = info.health() == v1::SHARD_HEALTH_LOST   ? ShardHealth::kLost
                    : info.health() == v1::SHARD_HEALTH_LEFT ? ShardHealth::kLeft
                                                             : ShardHealth::kAlive,
          .memory_bytes = info.memory_bytes(),
          .applied_commands = info.applied_commands(),
          .admin_address = info.admin_address(),
          .commands_per_second = info.commands_per_second()};
}

void EncodeClusterMap(const ClusterMap& map, v1::GetClusterMapResponse* out) {
  out->set_topology_version(map.topology_version);
  out->set_restore_count(map.restore_count);
  for (const ShardInfo& shard : map.shards) EncodeShardInfo(shard, out->add_shards());
  for (const SlotMap& slots : map.slots) EncodeSlotMap(slots, out->add_slots());
}

absl::StatusOr<ClusterMap> DecodeClusterMap(const v1::GetClusterMapResponse& response) {
  ClusterMap map;
  map.topology_version = response.topology_version();
  map.restore_count = response.restore_count();
  for (const v1::ShardInfo& info : response.shards()) {
    const auto ordinal = static_cast<int32_t>(map.shards.size());
    if (info.shard_id() != ordinal) {
      return absl::InternalError(absl::StrCat("a map without shard ", ordinal, " at its place"));
    }
    map.shards.push_back(DecodeShardInfo(info));
  }
  if (map.shards.empty()) return absl::InternalError("a map without shards");
  for (const v1::SlotAssignment& assignment : response.slots()) {
    absl::StatusOr<SlotMap> slots = DecodeSlotMap(assignment);
    if (!slots.ok() || slots->num_shards() != static_cast<int64_t>(map.shards.size())) {
      return absl::InternalError(
          absl::StrCat("slots that are not of its shards: ", slots.status().message()));
    }
    map.slots.push_back(*std::move(slots));
  }
  return map;
}

void EncodeJobSpec(const JobSpec& spec, v1::JobSpec* out) {
  out->set_job(spec.job);
  out->set_model(spec.model);
  out->set_samples_per_epoch(spec.samples_per_epoch);
  out->set_chunk_samples(spec.chunk_samples);
  out->set_max_epochs(spec.max_epochs);
  out->set_patience_epochs(spec.patience_epochs);
  out->set_evaluate(spec.evaluate);
  out->set_seed(spec.seed);
  out->set_data_fingerprint(spec.data_fingerprint);
  out->set_staged(spec.staged);
  EncodeFields(spec.training, out->mutable_training());
  for (const TableRate& rate : spec.rates) EncodeFields(rate, out->add_rates());
}

absl::StatusOr<JobSpec> DecodeJobSpec(const v1::JobSpec& spec) {
  JobSpec job = {.job = spec.job(),
                 .model = spec.model(),
                 .samples_per_epoch = spec.samples_per_epoch(),
                 .chunk_samples = spec.chunk_samples(),
                 .max_epochs = spec.max_epochs(),
                 .patience_epochs = spec.patience_epochs(),
                 .evaluate = spec.evaluate(),
                 .seed = spec.seed(),
                 .data_fingerprint = spec.data_fingerprint(),
                 .staged = spec.staged()};
  absl::Status status;
  DecodeFields(spec.training(), "training", status, job.training);
  for (int i = 0; i < spec.rates_size(); ++i) {
    DecodeFields(spec.rates(i), absl::StrCat("rates[", i, "]"), status, job.rates.emplace_back());
  }
  RETURN_IF_ERROR(status);
  return job;
}

void EncodeWorkRequest(const WorkRequest& request, v1::AcquireWorkRequest* out) {
  out->set_job(request.job);
  out->set_client_id(EncodeClientId(request.client));
  for (const LeaseReport& lease : request.finished) {
    v1::WorkReport& report = *out->add_finished();
    report.set_lease_id(lease.lease);
    report.set_loss_sum(lease.loss_sum);
    report.set_samples(lease.samples);
    report.set_metric(lease.metric);
    report.set_best_restored(lease.best_restored);
  }
  out->mutable_held()->Add(request.held.begin(), request.held.end());
  out->set_want_work(request.want_work);
}

absl::StatusOr<WorkRequest> DecodeWorkRequest(const v1::AcquireWorkRequest& request) {
  WorkRequest work;
  work.job = request.job();
  ASSIGN_OR_RETURN(work.client, DecodeClientId("client_id", request.client_id()));
  for (const v1::WorkReport& report : request.finished()) {
    work.finished.push_back({.lease = report.lease_id(),
                             .loss_sum = report.loss_sum(),
                             .samples = report.samples(),
                             .metric = report.metric(),
                             .best_restored = report.best_restored()});
  }
  work.held.assign(request.held().begin(), request.held().end());
  work.want_work = request.want_work();
  return work;
}

void EncodeWork(const Work& work, v1::AcquireWorkResponse* out) {
  std::visit(WorkEncoder{out}, work);
}

Work DecodeWork(const v1::AcquireWorkResponse& response) {
  switch (response.work_case()) {
    case v1::AcquireWorkResponse::kChunk:
      return ChunkWork{response.chunk().lease_id(), response.chunk().epoch(),
                       response.chunk().first(), response.chunk().count()};
    case v1::AcquireWorkResponse::kEvaluation:
      return EvaluationWork{response.evaluation().lease_id(), response.evaluation().epoch(),
                            response.evaluation().metric_to_beat()};
    case v1::AcquireWorkResponse::kStage:
      return StageWork{response.stage().lease_id(),
                       response.stage().stage() == v1::JOB_STAGE_COMPLETION
                           ? JobStage::kCompletion
                           : JobStage::kPreparation,
                       response.stage().best_epoch(), response.stage().best_metric()};
    case v1::AcquireWorkResponse::kWait:
      return WaitForWork{DecodeDuration(response.wait().retry_after())};
    case v1::AcquireWorkResponse::kFinished:
      return NoMoreWork{response.finished().best_epoch(), response.finished().best_metric(),
                        response.finished().best_restored(), response.finished().cancelled()};
    case v1::AcquireWorkResponse::WORK_NOT_SET:
      break;
  }
  return WaitForWork{absl::ZeroDuration()};
}

}  // namespace dslide::wire
