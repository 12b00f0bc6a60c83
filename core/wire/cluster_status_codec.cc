#include "core/wire/cluster_status_codec.h"

#include <google/protobuf/util/time_util.h>

#include <utility>

#include "core/wire/cluster_codec.h"
#include "core/wire/durations.h"
#include "core/wire/envelope_codec.h"

namespace dslide::wire {
namespace {

using google::protobuf::util::TimeUtil;

void EncodePart(const CheckpointPart& part, v1::ClusterCheckpointPart* out) {
  out->set_shard_id(part.shard.value());
  out->set_generation(part.generation);
  out->set_rows(part.rows);
  out->set_files(part.files);
  out->set_bytes(part.bytes);
  out->set_files_checksum(part.files_checksum);
  out->set_base_checkpoint_id(part.base_checkpoint_id);
  out->set_written_bytes(part.written_bytes);
}

CheckpointPart DecodePart(const v1::ClusterCheckpointPart& part) {
  return {.shard = ShardId(part.shard_id()),
          .generation = part.generation(),
          .rows = part.rows(),
          .files = part.files(),
          .bytes = part.bytes(),
          .files_checksum = part.files_checksum(),
          .base_checkpoint_id = part.base_checkpoint_id(),
          .written_bytes = part.written_bytes()};
}

void EncodeCheckpoints(const CheckpointStatus& status, v1::CheckpointStatus* out) {
  out->set_last_checkpoint_id(status.last_checkpoint_id);
  EncodeDuration(status.age, out->mutable_age());
  EncodeDuration(status.interval, out->mutable_interval());
  out->set_failures(status.failures);
  EncodeDuration(status.scrub_age, out->mutable_scrub_age());
  EncodeDuration(status.scrub_interval, out->mutable_scrub_interval());
}

CheckpointStatus DecodeCheckpoints(const v1::CheckpointStatus& status) {
  return {.last_checkpoint_id = status.last_checkpoint_id(),
          .age = DecodeDuration(status.age()),
          .interval = DecodeDuration(status.interval()),
          .failures = status.failures(),
          .scrub_age = DecodeDuration(status.scrub_age()),
          .scrub_interval = DecodeDuration(status.scrub_interval())};
}

}  // namespace

void EncodeJobStatus(const JobStatus& job, v1::JobStatus* out) {
  out->set_job(job.job);
  out->set_model(job.model);
  out->set_epoch(job.epoch);
  out->set_max_epochs(job.max_epochs);
  out->set_samples_done(job.samples_done);
  out->set_samples_per_epoch(job.samples_per_epoch);
  out->set_trainers(job.trainers);
  out->set_finished(job.finished);
  out->set_cancelled(job.cancelled);
  out->set_best_epoch(job.best_epoch);
  out->set_best_metric(job.best_metric);
  out->set_samples_per_second(job.samples_per_second);
  if (job.loss.has_value()) out->set_loss(*job.loss);
  for (const EpochResult& result : job.epochs) {
    v1::EpochResult& point = *out->add_epochs();
    point.set_epoch(result.epoch);
    if (result.loss.has_value()) point.set_loss(*result.loss);
    if (result.metric.has_value()) point.set_metric(*result.metric);
    if (result.samples_per_second.has_value()) {
      point.set_samples_per_second(*result.samples_per_second);
    }
  }
}

JobStatus DecodeJobStatus(const v1::JobStatus& job) {
  JobStatus status = {.job = job.job(),
                      .model = job.model(),
                      .epoch = job.epoch(),
                      .max_epochs = job.max_epochs(),
                      .samples_done = job.samples_done(),
                      .samples_per_epoch = job.samples_per_epoch(),
                      .trainers = job.trainers(),
                      .finished = job.finished(),
                      .cancelled = job.cancelled(),
                      .best_epoch = job.best_epoch(),
                      .best_metric = job.best_metric(),
                      .samples_per_second = job.samples_per_second()};
  if (job.has_loss()) status.loss = job.loss();
  for (const v1::EpochResult& point : job.epochs()) {
    EpochResult& result = status.epochs.emplace_back();
    result.epoch = point.epoch();
    if (point.has_loss()) result.loss = point.loss();
    if (point.has_metric()) result.metric = point.metric();
    if (point.has_samples_per_second()) result.samples_per_second = point.samples_per_second();
  }
  return status;
}

void EncodeOperationStatus(const OperationStatus& status, v1::Operation* out) {
  out->set_operation_id(status.operation_id);
  out->set_kind(status.kind);
  out->set_target(status.target);
  out->set_done(status.done);
  out->set_cancel_requested(status.cancel_requested);
  EncodeDuration(status.elapsed, out->mutable_elapsed());
  if (status.done) return;
  v1::OperationProgress* const progress = out->mutable_progress();
  progress->set_stage(status.stage);
  progress->set_shards_done(static_cast<int32_t>(status.shards_done));
  progress->set_shards(static_cast<int32_t>(status.shards));
}

OperationStatus DecodeOperationStatus(const v1::Operation& operation) {
  return {.operation_id = operation.operation_id(),
          .kind = operation.kind(),
          .target = operation.target(),
          .done = operation.done(),
          .cancel_requested = operation.cancel_requested(),
          .elapsed = DecodeDuration(operation.elapsed()),
          .stage = operation.progress().stage(),
          .shards_done = operation.progress().shards_done(),
          .shards = operation.progress().shards()};
}

void EncodeClusterCheckpoint(const ClusterCheckpoint& checkpoint, v1::ClusterCheckpoint* out) {
  out->set_checkpoint_id(checkpoint.checkpoint_id);
  *out->mutable_created() =
      TimeUtil::MillisecondsToTimestamp(absl::ToUnixMillis(checkpoint.created));
  out->set_topology_version(checkpoint.topology_version);
  for (const CheckpointPart& part : checkpoint.parts) EncodePart(part, out->add_parts());
  out->mutable_models()->Assign(checkpoint.models.begin(), checkpoint.models.end());
  out->mutable_jobs()->Assign(checkpoint.jobs.begin(), checkpoint.jobs.end());
  out->set_clients(checkpoint.clients);
  for (const ClientId& id : checkpoint.evicted) out->add_evicted(EncodeClientId(id));
  EncodeDuration(checkpoint.stall, out->mutable_stall());
  EncodeDuration(checkpoint.duration, out->mutable_duration());
  out->set_damage(checkpoint.damage);
}

ClusterCheckpoint DecodeClusterCheckpoint(const v1::ClusterCheckpoint& in) {
  ClusterCheckpoint checkpoint;
  checkpoint.checkpoint_id = in.checkpoint_id();
  checkpoint.created = absl::FromUnixMillis(TimeUtil::TimestampToMilliseconds(in.created()));
  checkpoint.topology_version = in.topology_version();
  for (const v1::ClusterCheckpointPart& part : in.parts()) {
    checkpoint.parts.push_back(DecodePart(part));
  }
  checkpoint.models.assign(in.models().begin(), in.models().end());
  checkpoint.jobs.assign(in.jobs().begin(), in.jobs().end());
  checkpoint.clients = in.clients();
  for (const std::string& bytes : in.evicted()) {
    const absl::StatusOr<ClientId> id = DecodeClientId("evicted", bytes);
    if (id.ok()) checkpoint.evicted.push_back(*id);
  }
  checkpoint.stall = DecodeDuration(in.stall());
  checkpoint.duration = DecodeDuration(in.duration());
  checkpoint.damage = in.damage();
  return checkpoint;
}

void EncodeClusterStatus(const ClusterStatus& status, v1::GetClusterStatusResponse* out) {
  out->set_version(status.version);
  out->set_revision(status.revision);
  out->set_topology_version(status.topology_version);
  out->set_expected_shards(static_cast<int32_t>(status.expected_shards));
  for (const ShardInfo& shard : status.shards) EncodeShardInfo(shard, out->add_shards());
  out->mutable_models()->Assign(status.models.begin(), status.models.end());
  for (const JobStatus& job : status.jobs) EncodeJobStatus(job, out->add_jobs());
  for (const OperationStatus& operation : status.operations) {
    EncodeOperationStatus(operation, out->add_operations());
  }
  out->set_restore_count(status.restore_count);
  if (status.checkpoints.has_value()) {
    EncodeCheckpoints(*status.checkpoints, out->mutable_checkpoints());
  }
}

ClusterStatus DecodeClusterStatus(const v1::GetClusterStatusResponse& response) {
  ClusterStatus status;
  status.version = response.version();
  status.revision = response.revision();
  status.topology_version = response.topology_version();
  status.expected_shards = response.expected_shards();
  for (const v1::ShardInfo& shard : response.shards()) {
    status.shards.push_back(DecodeShardInfo(shard));
  }
  status.models.assign(response.models().begin(), response.models().end());
  for (const v1::JobStatus& job : response.jobs()) status.jobs.push_back(DecodeJobStatus(job));
  for (const v1::Operation& operation : response.operations()) {
    status.operations.push_back(DecodeOperationStatus(operation));
  }
  status.restore_count = response.restore_count();
  if (response.has_checkpoints()) status.checkpoints = DecodeCheckpoints(response.checkpoints());
  return status;
}

}  // namespace dslide::wire
