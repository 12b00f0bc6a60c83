// The calls of a cluster checkpoint.

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/wire/client_steps.h"
#include "core/wire/durations.h"
#include "core/wire/envelope_codec.h"
#include "services/shard/rpc/shard_service.h"
#include "services/shard/rpc/unary_call_service.h"

namespace dslide::shard {
namespace {

constexpr int kMaxRetained = 1024;
constexpr int kMaxClients = 1'000'000;

absl::Status CheckCount(int64_t count, int64_t most, absl::string_view field) {
  if (count <= most) return absl::OkStatus();
  return StatusWithReason(absl::StatusCode::kInvalidArgument, reason::kOverLimit,
                          absl::StrCat(field, " has ", count, " entries, at most ", most, " fit"));
}

v1::CheckpointState EncodeState(CheckpointProgress::State state) {
  switch (state) {
    case CheckpointProgress::State::kUnknown:
      return v1::CHECKPOINT_STATE_UNKNOWN;
    case CheckpointProgress::State::kWriting:
      return v1::CHECKPOINT_STATE_WRITING;
    case CheckpointProgress::State::kPrepared:
      return v1::CHECKPOINT_STATE_PREPARED;
    case CheckpointProgress::State::kFailed:
      return v1::CHECKPOINT_STATE_FAILED;
  }
  return v1::CHECKPOINT_STATE_UNKNOWN;
}

}  // namespace

void ShardServiceImpl::RunInBackground(Unary* call, std::function<absl::Status()> work) {
  if (participant_ == nullptr) return Refuse(call, NoDataDir());
  background_.Run([this, call, work = std::move(work)] {
    const absl::Status done = work();
    if (!done.ok()) shared_.metrics->RecordRefusal(done);
    call->End(done);
  });
}

grpc::ServerUnaryReactor* ShardServiceImpl::EstimateFreezeDelay(
    grpc::CallbackServerContext* context, const v1::EstimateFreezeDelayRequest* request,
    v1::EstimateFreezeDelayResponse* response) {
  Unary* const call = Start("EstimateFreezeDelay", context, *request);
  SubmitTask(call, QueuePlace::kFront, [this, request, response](ShardCore& core) -> absl::Status {
    ASSIGN_OR_RETURN(const absl::Duration wait,
                     participant_->EstimateFreezeDelay(core, request->generation()));
    wire::EncodeDuration(wait, response->mutable_wait_estimate());
    return absl::OkStatus();
  });
  return call;
}

grpc::ServerUnaryReactor* ShardServiceImpl::FreezeSteps(grpc::CallbackServerContext* context,
                                                        const v1::FreezeStepsRequest* request,
                                                        v1::FreezeStepsResponse* response) {
  Unary* const call = Start("FreezeSteps", context, *request);
  SubmitTask(call, QueuePlace::kFront, [this, request, response](ShardCore& core) -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<ClientStep> changed,
                     participant_->Freeze(core, request->checkpoint_id(), request->generation(),
                                          wire::DecodeDuration(request->limit())));
    wire::EncodeClientSteps(changed, response->mutable_changed());
    return absl::OkStatus();
  });
  return call;
}

grpc::ServerUnaryReactor* ShardServiceImpl::AdmitSteps(grpc::CallbackServerContext* context,
                                                       const v1::AdmitStepsRequest* request,
                                                       v1::AdmitStepsResponse* response) {
  Unary* const call = Start("AdmitSteps", context, *request);
  SubmitTask(call, QueuePlace::kFront, [this, request, response](ShardCore& core) -> absl::Status {
    RETURN_IF_ERROR(CheckCount(request->up_to_size(), kMaxClients, "up_to"));
    RETURN_IF_ERROR(CheckCount(request->evict_size(), kMaxClients, "evict"));
    ASSIGN_OR_RETURN(const std::vector<ClientStep> up_to,
                     wire::DecodeClientSteps(request->up_to()));
    std::vector<ClientId> evict;
    for (const std::string& id : request->evict()) {
      ASSIGN_OR_RETURN(const ClientId client, wire::DecodeClientId("evict", id));
      evict.push_back(client);
    }
    ASSIGN_OR_RETURN(const std::vector<ClientStep> incomplete,
                     participant_->Admit(core, request->checkpoint_id(), up_to, evict));
    wire::EncodeClientSteps(incomplete, response->mutable_incomplete());
    return absl::OkStatus();
  });
  return call;
}

grpc::ServerUnaryReactor* ShardServiceImpl::CutCheckpoint(grpc::CallbackServerContext* context,
                                                          const v1::CutCheckpointRequest* request,
                                                          v1::CutCheckpointResponse* response) {
  Unary* const call = Start("CutCheckpoint", context, *request);
  SubmitTask(call, QueuePlace::kFront, [this, request, response](ShardCore& core) -> absl::Status {
    const PartBase base{.checkpoint_id = request->base_checkpoint_id(),
                        .files_checksum = request->base_files_checksum()};
    ASSIGN_OR_RETURN(const CutSize cut, participant_->Cut(core, request->checkpoint_id(), base));
    response->set_rows(cut.rows);
    wire::EncodeDuration(cut.stall, response->mutable_stall());
    return absl::OkStatus();
  });
  return call;
}

grpc::ServerUnaryReactor* ShardServiceImpl::AbortCheckpoint(
    grpc::CallbackServerContext* context, const v1::AbortCheckpointRequest* request,
    v1::AbortCheckpointResponse*) {
  Unary* const call = Start("AbortCheckpoint", context, *request);
  SubmitTask(call, QueuePlace::kFront, [this, request](ShardCore& core) -> absl::Status {
    participant_->Abort(core, request->checkpoint_id());
    return absl::OkStatus();
  });
  return call;
}

grpc::ServerUnaryReactor* ShardServiceImpl::GetCheckpointProgress(
    grpc::CallbackServerContext* context, const v1::GetCheckpointProgressRequest* request,
    v1::GetCheckpointProgressResponse* response) {
  Unary* const call = Start("GetCheckpointProgress", context, *request);
  if (participant_ == nullptr) {
    Refuse(call, NoDataDir());
    return call;
  }
  const CheckpointProgress progress = participant_->images().Progress(request->checkpoint_id());
  response->set_state(EncodeState(progress.state));
  response->set_rows(progress.rows);
  response->set_files(progress.files.files);
  response->set_bytes(progress.files.bytes);
  response->set_files_checksum(progress.files.checksum);
  response->set_base_checkpoint_id(progress.base_checkpoint_id);
  response->set_written_bytes(progress.written_bytes);
  response->set_error(std::string(progress.error.message()));
  call->End(absl::OkStatus());
  return call;
}

grpc::ServerUnaryReactor* ShardServiceImpl::VerifyCheckpoint(
    grpc::CallbackServerContext* context, const v1::VerifyCheckpointRequest* request,
    v1::VerifyCheckpointResponse* response) {
  Unary* const call = Start("VerifyCheckpoint", context, *request);
  RunInBackground(call, [this, request, response]() -> absl::Status {
    ASSIGN_OR_RETURN(
        const FileListSummary files,
        VerifyPart(participant_->images(), request->checkpoint_id(), request->files_checksum()));
    response->set_files(files.files);
    response->set_bytes(files.bytes);
    return absl::OkStatus();
  });
  return call;
}

grpc::ServerUnaryReactor* ShardServiceImpl::PrepareRollback(
    grpc::CallbackServerContext* context, const v1::PrepareRollbackRequest* request,
    v1::PrepareRollbackResponse* response) {
  Unary* const call = Start("PrepareRollback", context, *request);
  RunInBackground(call, [this, request, response]() -> absl::Status {
    ASSIGN_OR_RETURN(
        const FileListSummary files,
        participant_->PrepareRollback(request->checkpoint_id(), request->files_checksum()));
    response->set_files(files.files);
    response->set_bytes(files.bytes);
    return absl::OkStatus();
  });
  return call;
}

grpc::ServerUnaryReactor* ShardServiceImpl::RetainCheckpoints(
    grpc::CallbackServerContext* context, const v1::RetainCheckpointsRequest* request,
    v1::RetainCheckpointsResponse* response) {
  Unary* const call = Start("RetainCheckpoints", context, *request);
  RunInBackground(call, [this, request, response]() -> absl::Status {
    RETURN_IF_ERROR(CheckCount(request->checkpoint_ids_size(), kMaxRetained, "checkpoint_ids"));
    const std::vector<uint64_t> checkpoint_ids(request->checkpoint_ids().begin(),
                                               request->checkpoint_ids().end());
    ASSIGN_OR_RETURN(const int64_t removed, participant_->images().Retain(checkpoint_ids));
    response->set_removed(removed);
    return absl::OkStatus();
  });
  return call;
}

grpc::ServerUnaryReactor* ShardServiceImpl::Rollback(grpc::CallbackServerContext* context,
                                                     const v1::RollbackRequest* request,
                                                     v1::RollbackResponse* response) {
  Unary* const call = Start("Rollback", context, *request);
  SubmitTask(call, QueuePlace::kBack, [this, request, response](ShardCore& core) -> absl::Status {
    ASSIGN_OR_RETURN(const CutSize size, participant_->Rollback(core, request->checkpoint_id(),
                                                                request->files_checksum()));
    response->set_rows(size.rows);
    return absl::OkStatus();
  });
  return call;
}

grpc::ServerUnaryReactor* ShardServiceImpl::ReadCheckpointFile(
    grpc::CallbackServerContext* context, const v1::ReadCheckpointFileRequest* request,
    v1::ReadCheckpointFileResponse* response) {
  Unary* const call = Start("ReadCheckpointFile", context, *request);
  RunInBackground(call, [this, request, response]() -> absl::Status {
    ASSIGN_OR_RETURN(*response->mutable_data(),
                     transfer_->Read(request->checkpoint_id(), request->path(), request->offset()));
    return absl::OkStatus();
  });
  return call;
}

grpc::ServerUnaryReactor* ShardServiceImpl::WriteCheckpointFile(
    grpc::CallbackServerContext* context, const v1::WriteCheckpointFileRequest* request,
    v1::WriteCheckpointFileResponse*) {
  Unary* const call = Start("WriteCheckpointFile", context, *request);
  RunInBackground(call, [this, request]() -> absl::Status {
    return transfer_->Write(request->checkpoint_id(), request->path(), request->offset(),
                            request->data());
  });
  return call;
}

grpc::ServerUnaryReactor* ShardServiceImpl::AdoptCheckpoint(
    grpc::CallbackServerContext* context, const v1::AdoptCheckpointRequest* request,
    v1::AdoptCheckpointResponse* response) {
  Unary* const call = Start("AdoptCheckpoint", context, *request);
  RunInBackground(call, [this, request, response]() -> absl::Status {
    ASSIGN_OR_RETURN(const FileListSummary files,
                     transfer_->Adopt(request->checkpoint_id(), request->files_checksum()));
    response->set_files(files.files);
    response->set_bytes(files.bytes);
    return absl::OkStatus();
  });
  return call;
}

}  // namespace dslide::shard
