// The part of CoordinatorClient about operations: started by one call, waited for in turns.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/coordinator_client_impl.h"
#include "core/base/reason.h"
#include "core/base/retry_after.h"
#include "core/base/status_macros.h"
#include "core/protocol/coordinator_reason_words.h"
#include "core/wire/cluster_status_codec.h"
#include "core/wire/durations.h"
#include "core/wire/steps/step_answer_codec.h"

namespace dslide {
namespace {

// One question answers as soon as the operation is done, so a long turn costs nothing; somebody who
// watches wants to see it move.
constexpr absl::Duration kTurn = absl::Seconds(30);
constexpr absl::Duration kWatchedTurn = absl::Milliseconds(250);
// After an answer that came too early, as from a coordinator of which many ask.
constexpr absl::Duration kPause = absl::Milliseconds(200);
// How long the end of one that was cancelled is waited for. What is written is given up in
// milliseconds; what is too late to cancel may take as long as disks do.
constexpr absl::Duration kCancelPatience = absl::Seconds(10);

absl::Status ErrorOf(const std::string& peer, const char* name, const v1::Operation& operation) {
  const absl::Status error = wire::DecodeStepError(operation.error());
  const std::string message = absl::StrCat(peer, ", ", name, ": ", error.message(), " (operation ",
                                           operation.operation_id(), ")");
  const std::string reason = ReasonOf(error);
  absl::Status status = reason.empty() ? absl::Status(error.code(), message)
                                       : StatusWithReason(error.code(), reason, message);
  if (const int64_t pause_ms = RetryAfterMs(error); pause_ms > 0) {
    SetRetryAfterMs(status, pause_ms);
  }
  return status;
}

bool StopRequested(const OperationWatch& watch) {
  return watch.stop_requested && watch.stop_requested();
}

}  // namespace

absl::StatusOr<v1::Operation> CoordinatorClient::Impl::Look(const v1::Operation& operation,
                                                            absl::Duration wait,
                                                            absl::Duration timeout) const {
  v1::GetOperationRequest request;
  request.set_operation_id(operation.operation_id());
  wire::EncodeDuration(wait, request.mutable_wait());
  ASSIGN_OR_RETURN(
      v1::GetOperationResponse response,
      Call("GetOperation", &v1::CoordinatorService::Stub::GetOperation, request, timeout, true));
  return std::move(*response.mutable_operation());
}

absl::StatusOr<v1::Operation> CoordinatorClient::Impl::Stop(const char* name,
                                                            const v1::Operation& operation) const {
  v1::CancelOperationRequest request;
  request.set_operation_id(operation.operation_id());
  const absl::Duration patience = std::min(options.timeout, kCancelPatience);
  RETURN_IF_ERROR(Call("CancelOperation", &v1::CoordinatorService::Stub::CancelOperation, request,
                       patience, true)
                      .status());
  ASSIGN_OR_RETURN(v1::Operation ended, Look(operation, kCancelPatience, 2 * kCancelPatience));
  if (ended.done()) return ended;
  return absl::CancelledError(
      absl::StrCat(peer, ", ", name, ": it was told to end and is ", ended.progress().stage(),
                   ", which it will finish if it is too late: dslide status shows it"));
}

absl::StatusOr<v1::Operation> CoordinatorClient::Impl::Await(const char* name,
                                                             v1::Operation operation,
                                                             absl::Time deadline,
                                                             const OperationWatch& watch) const {
  const bool watched = watch.on_progress || watch.stop_requested;
  while (!operation.done()) {
    if (StopRequested(watch)) return Stop(name, operation);
    if (watch.on_progress) watch.on_progress(wire::DecodeOperationStatus(operation));
    const absl::Time asked = absl::Now();
    if (asked >= deadline) {
      absl::StatusOr<v1::Operation> ended = Stop(name, operation);
      if (ended.ok() && ended->error().code() == 0) return ended;
      return absl::DeadlineExceededError(
          absl::StrCat(peer, ", ", name, ": it still ran after ",
                       absl::FormatDuration(wire::DecodeDuration(operation.elapsed())),
                       ended.ok() ? " and was cancelled" : " and was told to end"));
    }
    const absl::Duration wait = std::min(watched ? kWatchedTurn : kTurn, deadline - asked);
    ASSIGN_OR_RETURN(operation, Look(operation, wait, wait + options.timeout));
    if (!operation.done() && absl::Now() - asked < wait) {
      absl::SleepFor(std::min(kPause, wait - (absl::Now() - asked)));
    }
  }
  return operation;
}

absl::StatusOr<v1::Operation> CoordinatorClient::Impl::RunOperation(
    const char* name, absl::FunctionRef<absl::StatusOr<v1::Operation>(absl::Duration)> start,
    absl::Duration timeout, const OperationWatch& watch) const {
  const absl::Time deadline = absl::Now() + timeout;
  const uint64_t salt = reinterpret_cast<uintptr_t>(&deadline);
  for (int attempt = 1;; ++attempt) {
    ASSIGN_OR_RETURN(v1::Operation started, start(deadline - absl::Now()));
    absl::StatusOr<v1::Operation> ended = Await(name, std::move(started), deadline, watch);
    absl::Status error = ended.status();
    if (ended.ok()) {
      if (ended->error().code() == 0) return ended;
      error = ErrorOf(peer, name, *ended);
    }
    // Of a coordinator that was restarted nobody knows what came of it; all of them may be
    // repeated.
    const bool again = absl::IsUnavailable(error) || ReasonOf(error) == reason::kUnknownOperation;
    const absl::Duration pause = PauseBefore(error, options.retry, attempt, salt);
    if (!again || StopRequested(watch) || absl::Now() + pause >= deadline) return error;
    absl::SleepFor(pause);
  }
}

absl::StatusOr<OperationStatus> CoordinatorClient::CancelOperation(
    const std::string& operation_id) {
  v1::CancelOperationRequest request;
  request.set_operation_id(operation_id);
  ASSIGN_OR_RETURN(const v1::CancelOperationResponse response,
                   impl_->Call("CancelOperation", &v1::CoordinatorService::Stub::CancelOperation,
                               request, impl_->options.timeout, true));
  return wire::DecodeOperationStatus(response.operation());
}

}  // namespace dslide
