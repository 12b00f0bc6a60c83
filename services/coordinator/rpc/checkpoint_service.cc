// The calls of cluster checkpoints.

#include <google/protobuf/util/time_util.h>

#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/wire/durations.h"
#include "core/wire/envelope_codec.h"
#include "services/common/unary.h"
#include "services/coordinator/rpc/coordinator_service.h"

namespace dslide::coordinator {
namespace {

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

}  // namespace

grpc::Status CoordinatorServiceImpl::CreateClusterCheckpoint(
    grpc::ServerContext* context, const v1::CreateClusterCheckpointRequest* request,
    v1::CreateClusterCheckpointResponse* response) {
  return RunUnary(metrics_.method("CreateClusterCheckpoint"), *context, *request, response,
                  [&]() -> absl::Status {
                    ASSIGN_OR_RETURN(const Manifest taken, coordinator_->TakeClusterCheckpoint());
                    EncodeCheckpoint(taken, response->mutable_checkpoint());
                    return absl::OkStatus();
                  });
}

grpc::Status CoordinatorServiceImpl::ListClusterCheckpoints(
    grpc::ServerContext* context, const v1::ListClusterCheckpointsRequest* request,
    v1::ListClusterCheckpointsResponse* response) {
  return RunUnary(metrics_.method("ListClusterCheckpoints"), *context, *request, response,
                  [&]() -> absl::Status {
                    ASSIGN_OR_RETURN(const std::vector<Manifest> manifests,
                                     coordinator_->ListClusterCheckpoints());
                    for (const Manifest& manifest : manifests) {
                      EncodeCheckpoint(manifest, response->add_checkpoints());
                    }
                    return absl::OkStatus();
                  });
}

grpc::Status CoordinatorServiceImpl::VerifyClusterCheckpoint(
    grpc::ServerContext* context, const v1::VerifyClusterCheckpointRequest* request,
    v1::VerifyClusterCheckpointResponse* response) {
  return RunUnary(metrics_.method("VerifyClusterCheckpoint"), *context, *request, response,
                  [&]() -> absl::Status {
                    ASSIGN_OR_RETURN(const Manifest manifest, coordinator_->VerifyClusterCheckpoint(
                                                                  request->checkpoint_id()));
                    response->set_checkpoint_id(manifest.checkpoint_id);
                    for (const ManifestPart& part : manifest.parts) {
                      response->set_files(response->files() + part.files);
                      response->set_bytes(response->bytes() + part.bytes);
                    }
                    return absl::OkStatus();
                  });
}

grpc::Status CoordinatorServiceImpl::RestoreClusterCheckpoint(
    grpc::ServerContext* context, const v1::RestoreClusterCheckpointRequest* request,
    v1::RestoreClusterCheckpointResponse* response) {
  return RunUnary(metrics_.method("RestoreClusterCheckpoint"), *context, *request, response,
                  [&]() -> absl::Status {
                    uint64_t checkpoint_id = request->checkpoint_id();
                    if (checkpoint_id == 0) {
                      ASSIGN_OR_RETURN(const ClusterCheckpoints::Choice choice,
                                       coordinator_->NewestWholeCheckpoint());
                      checkpoint_id = choice.checkpoint_id;
                      for (const uint64_t skipped : choice.skipped) response->add_skipped(skipped);
                    }
                    ASSIGN_OR_RETURN(const Manifest manifest,
                                     coordinator_->RestoreClusterCheckpoint(checkpoint_id));
                    response->set_checkpoint_id(manifest.checkpoint_id);
                    for (const ManifestPart& part : manifest.parts) {
                      response->set_rows(response->rows() + part.rows);
                    }
                    return absl::OkStatus();
                  });
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
                                     coordinator_->PruneClusterCheckpoints(request->keep()));
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
                                     coordinator_->ClusterCheckpointText(request->checkpoint_id()));
                    ASSIGN_OR_RETURN(const Manifest manifest, DecodeManifest(response->manifest()));
                    response->set_checkpoint_id(manifest.checkpoint_id);
                    return absl::OkStatus();
                  });
}

grpc::Status CoordinatorServiceImpl::AdoptClusterCheckpoint(
    grpc::ServerContext* context, const v1::AdoptClusterCheckpointRequest* request,
    v1::AdoptClusterCheckpointResponse* response) {
  return RunUnary(metrics_.method("AdoptClusterCheckpoint"), *context, *request, response,
                  [&]() -> absl::Status {
                    ASSIGN_OR_RETURN(const Manifest manifest,
                                     coordinator_->AdoptClusterCheckpoint(request->manifest()));
                    response->set_checkpoint_id(manifest.checkpoint_id);
                    return absl::OkStatus();
                  });
}

}  // namespace dslide::coordinator
