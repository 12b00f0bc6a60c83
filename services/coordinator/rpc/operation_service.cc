// The calls that answer with an operation, and those that ask for it.

#include <variant>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/wire/cluster_status_codec.h"
#include "core/wire/durations.h"
#include "core/wire/steps/step_answer_codec.h"
#include "services/common/unary.h"
#include "services/coordinator/rpc/coordinator_service.h"
#include "services/coordinator/rpc/page.h"

namespace dslide::coordinator {
namespace {

// How long a shard may take for a checkpoint of a model.
constexpr absl::Duration kCheckpointTimeout = absl::Hours(1);
constexpr absl::Duration kLongestWait = absl::Seconds(60);
constexpr char kOperationList[] = "operations";

std::string CheckpointTarget(uint64_t checkpoint_id) {
  return checkpoint_id == 0 ? "newest" : absl::StrCat(checkpoint_id);
}

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
    wire::EncodeClusterCheckpoint(SummaryOf(taken.manifest),
                                  out->mutable_create_cluster_checkpoint());
  }
  void operator()(const VerifiedCheckpoint& verified) const {
    v1::ClusterCheckpointVerified* const result = out->mutable_verify_cluster_checkpoint();
    result->set_checkpoint_id(verified.manifest.checkpoint_id);
    for (const CheckpointPart& part : verified.manifest.parts) {
      result->set_files(result->files() + part.files);
      result->set_bytes(result->bytes() + part.bytes);
    }
  }
  void operator()(const RestoredCheckpoint& restored) const {
    v1::ClusterCheckpointRestored* const result = out->mutable_restore_cluster_checkpoint();
    result->set_checkpoint_id(restored.manifest.checkpoint_id);
    for (const CheckpointPart& part : restored.manifest.parts) {
      result->set_rows(result->rows() + part.rows);
    }
    for (const uint64_t skipped : restored.skipped) result->add_skipped(skipped);
  }
  void operator()(const AdoptedCheckpoint& adopted) const {
    out->mutable_adopt_cluster_checkpoint()->set_checkpoint_id(adopted.manifest.checkpoint_id);
  }
};

void EncodeOperation(const OperationView& view, v1::Operation* out) {
  wire::EncodeOperationStatus(view.status, out);
  if (!view.status.done) return;
  if (!view.error.ok()) {
    wire::EncodeStepError(view.error, out->mutable_error());
  } else {
    std::visit(ResultEncoder{out}, view.result);
  }
}

}  // namespace

template <typename Response>
absl::Status CoordinatorServiceImpl::StartOperation(const OperationRequest& request,
                                                    Operations::Work work, Response* response) {
  ASSIGN_OR_RETURN(const OperationView view, operations_->Start(request, std::move(work)));
  EncodeOperation(view, response->mutable_operation());
  return absl::OkStatus();
}

grpc::Status CoordinatorServiceImpl::CreateCheckpoint(grpc::ServerContext* context,
                                                      const v1::CreateCheckpointRequest* request,
                                                      v1::CreateCheckpointResponse* response) {
  return RunUnary(
      metrics_.method("CreateCheckpoint"), *context, *request, response, [&]() -> absl::Status {
        RETURN_IF_ERROR(CheckModel(*context, request->model()));
        RETURN_IF_ERROR(coordinator_->CheckCheckpoint(request->model(), request->checkpoint()));
        // Without a key: it has what was confirmed before the call, as one that runs may not.
        return StartOperation(
            {.kind = OperationKind::kCreateCheckpoint,
             .target = absl::StrCat(request->model(), "/", request->checkpoint()),
             .key = ""},
            [coordinator = coordinator_, model = request->model(),
             checkpoint =
                 request->checkpoint()](WorkProgress& progress) -> absl::StatusOr<OperationResult> {
              ASSIGN_OR_RETURN(
                  const CheckpointSize size,
                  coordinator->CreateCheckpoint(model, checkpoint, kCheckpointTimeout, progress));
              return OperationResult(size);
            },
            response);
      });
}

grpc::Status CoordinatorServiceImpl::RestoreCheckpoint(grpc::ServerContext* context,
                                                       const v1::RestoreCheckpointRequest* request,
                                                       v1::RestoreCheckpointResponse* response) {
  return RunUnary(
      metrics_.method("RestoreCheckpoint"), *context, *request, response, [&]() -> absl::Status {
        RETURN_IF_ERROR(CheckModel(*context, request->model()));
        RETURN_IF_ERROR(coordinator_->CheckCheckpoint(request->model(), request->checkpoint()));
        const std::string target = absl::StrCat(request->model(), "/", request->checkpoint());
        return StartOperation(
            {.kind = OperationKind::kRestoreCheckpoint, .target = target, .key = target},
            [coordinator = coordinator_, model = request->model(),
             checkpoint =
                 request->checkpoint()](WorkProgress& progress) -> absl::StatusOr<OperationResult> {
              ASSIGN_OR_RETURN(
                  const int64_t rows,
                  coordinator->RestoreCheckpoint(model, checkpoint, kCheckpointTimeout, progress));
              return OperationResult(RestoredRows{rows});
            },
            response);
      });
}

grpc::Status CoordinatorServiceImpl::CreateClusterCheckpoint(
    grpc::ServerContext* context, const v1::CreateClusterCheckpointRequest* request,
    v1::CreateClusterCheckpointResponse* response) {
  return RunUnary(metrics_.method("CreateClusterCheckpoint"), *context, *request, response, [&] {
    return StartOperation(
        {.kind = OperationKind::kCreateClusterCheckpoint, .target = "", .key = "cluster"},
        [coordinator = coordinator_](WorkProgress& progress) -> absl::StatusOr<OperationResult> {
          ASSIGN_OR_RETURN(Manifest taken, coordinator->checkpoints().Take(progress));
          return OperationResult(TakenCheckpoint{std::move(taken)});
        },
        response);
  });
}

grpc::Status CoordinatorServiceImpl::VerifyClusterCheckpoint(
    grpc::ServerContext* context, const v1::VerifyClusterCheckpointRequest* request,
    v1::VerifyClusterCheckpointResponse* response) {
  return RunUnary(metrics_.method("VerifyClusterCheckpoint"), *context, *request, response, [&] {
    const std::string target = CheckpointTarget(request->checkpoint_id());
    return StartOperation(
        {.kind = OperationKind::kVerifyClusterCheckpoint, .target = target, .key = target},
        [coordinator = coordinator_, checkpoint_id = request->checkpoint_id()](
            WorkProgress& progress) -> absl::StatusOr<OperationResult> {
          ASSIGN_OR_RETURN(Manifest verified,
                           coordinator->checkpoints().Verify(checkpoint_id, progress));
          return OperationResult(VerifiedCheckpoint{std::move(verified)});
        },
        response);
  });
}

grpc::Status CoordinatorServiceImpl::RestoreClusterCheckpoint(
    grpc::ServerContext* context, const v1::RestoreClusterCheckpointRequest* request,
    v1::RestoreClusterCheckpointResponse* response) {
  return RunUnary(metrics_.method("RestoreClusterCheckpoint"), *context, *request, response, [&] {
    const std::string target = CheckpointTarget(request->checkpoint_id());
    return StartOperation(
        {.kind = OperationKind::kRestoreClusterCheckpoint, .target = target, .key = target},
        [coordinator = coordinator_, checkpoint_id = request->checkpoint_id()](
            WorkProgress& progress) -> absl::StatusOr<OperationResult> {
          ClusterCheckpoints::Choice choice{.checkpoint_id = checkpoint_id};
          if (checkpoint_id == 0) {
            ASSIGN_OR_RETURN(choice, coordinator->checkpoints().NewestWhole());
          }
          ASSIGN_OR_RETURN(Manifest restored,
                           coordinator->checkpoints().Restore(choice.checkpoint_id, progress));
          return OperationResult(
              RestoredCheckpoint{std::move(restored), std::move(choice.skipped)});
        },
        response);
  });
}

grpc::Status CoordinatorServiceImpl::AdoptClusterCheckpoint(
    grpc::ServerContext* context, const v1::AdoptClusterCheckpointRequest* request,
    v1::AdoptClusterCheckpointResponse* response) {
  return RunUnary(metrics_.method("AdoptClusterCheckpoint"), *context, *request, response,
                  [&]() -> absl::Status {
                    ASSIGN_OR_RETURN(const Manifest manifest, DecodeManifest(request->manifest()));
                    return StartOperation(
                        {.kind = OperationKind::kAdoptClusterCheckpoint,
                         .target = CheckpointTarget(manifest.checkpoint_id),
                         .key = request->manifest()},
                        [coordinator = coordinator_, text = request->manifest()](
                            WorkProgress& progress) -> absl::StatusOr<OperationResult> {
                          ASSIGN_OR_RETURN(Manifest adopted,
                                           coordinator->checkpoints().Adopt(text, progress));
                          return OperationResult(AdoptedCheckpoint{std::move(adopted)});
                        },
                        response);
                  });
}

grpc::Status CoordinatorServiceImpl::GetOperation(grpc::ServerContext* context,
                                                  const v1::GetOperationRequest* request,
                                                  v1::GetOperationResponse* response) {
  return RunUnary(
      metrics_.method("GetOperation"), *context, *request, response, [&]() -> absl::Status {
        const absl::Duration wait = wire::DecodeDuration(request->wait());
        if (wait < absl::ZeroDuration() || wait > kLongestWait) {
          return StatusWithReason(
              absl::StatusCode::kInvalidArgument, reason::kOutOfRange,
              absl::StrCat("wait ", absl::FormatDuration(wait), " is not in [0, 60 s]"));
        }
        ASSIGN_OR_RETURN(const OperationView view,
                         operations_->Get(request->operation_id(), RemainingTime(*context, wait)));
        EncodeOperation(view, response->mutable_operation());
        return absl::OkStatus();
      });
}

absl::Status CoordinatorServiceImpl::DoListOperations(const v1::ListOperationsRequest& request,
                                                      v1::ListOperationsResponse* response) const {
  ASSIGN_OR_RETURN(const NumberedPage page,
                   DecodeNumberedPage(kOperationList, request.page_size(), request.page_token()));
  PageMeter meter(page.size);
  uint64_t last = 0;
  for (const OperationView& view : operations_->List()) {
    if (view.number >= page.after) continue;
    if (meter.full()) {
      response->set_next_page_token(EncodePageToken(kOperationList, absl::StrCat(last)));
      break;
    }
    v1::Operation* const added = response->add_operations();
    EncodeOperation(view, added);
    meter.Add(*added);
    last = view.number;
  }
  return absl::OkStatus();
}

grpc::Status CoordinatorServiceImpl::ListOperations(grpc::ServerContext* context,
                                                    const v1::ListOperationsRequest* request,
                                                    v1::ListOperationsResponse* response) {
  return RunUnary(metrics_.method("ListOperations"), *context, *request, response,
                  [&] { return DoListOperations(*request, response); });
}

grpc::Status CoordinatorServiceImpl::CancelOperation(grpc::ServerContext* context,
                                                     const v1::CancelOperationRequest* request,
                                                     v1::CancelOperationResponse* response) {
  return RunUnary(
      metrics_.method("CancelOperation"), *context, *request, response, [&]() -> absl::Status {
        ASSIGN_OR_RETURN(const OperationView view, operations_->Cancel(request->operation_id()));
        EncodeOperation(view, response->mutable_operation());
        return absl::OkStatus();
      });
}

}  // namespace dslide::coordinator
