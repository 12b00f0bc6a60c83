#include "services/coordinator/rpc/operation_answer_service.h"

#include <google/protobuf/util/time_util.h>

#include <variant>

#include "core/wire/durations.h"
#include "core/wire/envelope_codec.h"
#include "core/wire/steps/step_codec.h"

namespace dslide::coordinator {
namespace {

// One overload per kind of result.
struct ResultEncoder {
  v1::Operation* out;

  void operator()(std::monostate) const {}
  void operator()(const CheckpointSize& size) const {
    out->mutable_create_checkpoint()->set_rows(size.rows);
    out->mutable_create_checkpoint()->set_bytes(size.bytes);
  }
  void operator()(const RestoredRows& restored) const {
    out->mutable_restore_checkpoint()->set_rows(restored.rows);
  }
  void operator()(const TakenCheckpoint& taken) const {
    EncodeCheckpoint(taken.manifest, out->mutable_create_cluster_checkpoint());
  }
  void operator()(const VerifiedCheckpoint& verified) const {
    v1::ClusterCheckpointVerified* const result = out->mutable_verify_cluster_checkpoint();
    result->set_checkpoint_id(verified.manifest.checkpoint_id);
    for (const ManifestPart& part : verified.manifest.parts) {
      result->set_files(result->files() + part.files);
      result->set_bytes(result->bytes() + part.bytes);
    }
  }
  void operator()(const RestoredCheckpoint& restored) const {
    v1::ClusterCheckpointRestored* const result = out->mutable_restore_cluster_checkpoint();
    result->set_checkpoint_id(restored.manifest.checkpoint_id);
    for (const ManifestPart& part : restored.manifest.parts) {
      result->set_rows(result->rows() + part.rows);
    }
    for (const uint64_t skipped : restored.skipped) result->add_skipped(skipped);
  }
  void operator()(const AdoptedCheckpoint& adopted) const {
    out->mutable_adopt_cluster_checkpoint()->set_checkpoint_id(adopted.manifest.checkpoint_id);
  }
};

}  // namespace

void EncodeCheckpoint(const Manifest& manifest, v1::ClusterCheckpoint* out) {
  out->set_checkpoint_id(manifest.checkpoint_id);
  *out->mutable_created() =
      google::protobuf::util::TimeUtil::MillisecondsToTimestamp(manifest.created_unix_ms);
  out->set_topology_version(manifest.topology_version);
  for (const ManifestPart& part : manifest.parts) {
    v1::ClusterCheckpointPart* const added = out->add_parts();
    added->set_shard_id(part.shard.value());
    added->set_generation(part.generation);
    added->set_rows(part.rows);
    added->set_files(part.files);
    added->set_bytes(part.bytes);
    added->set_files_checksum(part.files_checksum);
    added->set_base_checkpoint_id(part.base_checkpoint_id);
    added->set_written_bytes(part.written_bytes);
  }
  for (const ModelSpec& spec : manifest.models) out->add_models(spec.name);
  for (const JobRecord& job : manifest.jobs) out->add_jobs(job.spec.job);
  out->set_clients(static_cast<int64_t>(manifest.steps.size()));
  for (const ClientId& id : manifest.evicted) out->add_evicted(wire::EncodeClientId(id));
  wire::EncodeDuration(absl::Microseconds(manifest.stall_us), out->mutable_stall());
  wire::EncodeDuration(absl::Microseconds(manifest.duration_us), out->mutable_duration());
  out->set_damage(manifest.damage);
}

void EncodeOperation(const OperationView& view, v1::Operation* out) {
  out->set_operation_id(view.id);
  out->set_kind(OperationKindName(view.kind));
  out->set_target(view.target);
  out->set_done(view.done);
  out->set_cancel_requested(view.cancel_requested);
  wire::EncodeDuration(view.elapsed, out->mutable_elapsed());
  if (!view.done) {
    v1::OperationProgress* const progress = out->mutable_progress();
    progress->set_stage(view.progress.stage);
    progress->set_shards_done(static_cast<int32_t>(view.progress.shards_done));
    progress->set_shards(static_cast<int32_t>(view.progress.shards));
  } else if (!view.status.ok()) {
    wire::EncodeStepError(view.status, out->mutable_error());
  } else {
    std::visit(ResultEncoder{out}, view.result);
  }
}

}  // namespace dslide::coordinator
