#include "client/cli/conformance/step_relay.h"

#include <string>
#include <thread>
#include <utility>

#include "core/wire/steps/step_answer_codec.h"

namespace dslide::cli {
namespace {

// "HeadForward" of a request that has one.
std::string CallOf(const v1::StepRequest& request) {
  const auto* const descriptor = v1::StepRequest::descriptor();
  const int number = request.operation_case();
  const auto* const field = descriptor->FindFieldByNumber(number);
  // Protobuf names types by strings or by views of them, depending on its version.
  return field == nullptr ? "Step" : std::string(field->message_type()->name());
}

bool UsesUp(const v1::StepResponse& response) {
  return !response.has_error() ||
         response.error().code() == static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace

StepRelay::StepRelay(ShardFace& face, grpc::ServerContext& context, Stream& client)
    : face_(face),
      context_(context),
      client_(client),
      behind_context_(ContextBehind(context)),
      behind_(face.stub().Step(behind_context_.get())) {}

grpc::Status StepRelay::Run() {
  std::thread answers([this] { PassAnswers(); });
  bool whole = true;
  v1::StepRequest request;
  while (whole && client_.Read(&request)) whole = Pass(std::move(request));
  {
    const absl::MutexLock lock(&mu_);
    leaving_ = true;
  }
  if (!whole || context_.IsCancelled()) {
    behind_context_->TryCancel();
  } else {
    behind_->WritesDone();
  }
  answers.join();
  const grpc::Status status = behind_->Finish();
  return whole ? status : BrokenConnection();
}

bool StepRelay::Pass(v1::StepRequest request) {
  const v1::RequestEnvelope envelope = request.envelope();
  const std::string call = CallOf(request);
  v1::StepRequest bare = request;
  bare.clear_envelope();
  const Freshness freshness =
      face_.checks().sequence.Look({.shard = face_.shard(),
                                    .call = call,
                                    .envelope = envelope,
                                    .content = bare.SerializeAsString(),
                                    .generation = face_.CurrentGeneration()});
  Trouble trouble = Trouble::kNone;
  if (freshness == Freshness::kNew) {
    face_.checks().training->Request(face_.shard(), request);
    const bool idle = [this] {
      const absl::MutexLock lock(&mu_);
      return unanswered_.empty();
    }();
    trouble = face_.NextStepTrouble(idle);
  }
  if (trouble == Trouble::kBusy) {
    v1::StepResponse busy;
    busy.set_sequence(envelope.sequence());
    busy.set_generation(face_.CurrentGeneration());
    wire::EncodeStepError(BusyShard(), busy.mutable_error());
    Write(busy);
    return true;
  }
  if (trouble == Trouble::kLostAnswer || trouble == Trouble::kMoved) {
    PassAndLose(std::move(request), trouble == Trouble::kMoved);
    return false;
  }
  Remember(request);
  request.mutable_envelope()->set_generation(face_.Real(envelope.generation()));
  behind_->Write(request);
  return true;
}

void StepRelay::Remember(const v1::StepRequest& request) {
  const absl::MutexLock lock(&mu_);
  unanswered_[request.envelope().sequence()] = request;
}

void StepRelay::PassAndLose(v1::StepRequest request, bool move) {
  const v1::RequestEnvelope envelope = request.envelope();
  Remember(request);
  {
    const absl::MutexLock lock(&mu_);
    losing_ = envelope.sequence();
  }
  request.mutable_envelope()->set_generation(face_.Real(envelope.generation()));
  behind_->Write(request);
  {
    const absl::MutexLock lock(&mu_);
    const auto over = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return lost_ || ended_; };
    mu_.Await(absl::Condition(&over));
  }
  face_.checks().sequence.Lost(face_.shard(), envelope.client_id(), envelope.sequence());
  if (move) face_.Move();
}

void StepRelay::PassAnswers() {
  v1::StepResponse response;
  while (behind_->Read(&response)) {
    if (!Look(response)) continue;
    if (response.generation() != 0) {
      response.set_generation(face_.Shown(response.generation()));
    }
    Write(response);
  }
  const absl::MutexLock lock(&mu_);
  ended_ = true;
  if (!leaving_) context_.TryCancel();  // the real shard has ended the stream: so does this one
}

bool StepRelay::Look(const v1::StepResponse& response) {
  v1::StepRequest request;
  bool losing = false;
  {
    const absl::MutexLock lock(&mu_);
    const auto found = unanswered_.find(response.sequence());
    if (found == unanswered_.end()) return true;
    request = std::move(found->second);
    unanswered_.erase(found);
    losing = losing_ == response.sequence();
  }
  face_.checks().training->Answer(face_.shard(), request, response);
  if (losing) {
    const absl::MutexLock lock(&mu_);
    lost_ = true;
    return false;
  }
  if (UsesUp(response)) {
    face_.checks().sequence.Answered(face_.shard(), request.envelope().client_id(),
                                     response.sequence());
  }
  return true;
}

void StepRelay::Write(const v1::StepResponse& response) {
  const absl::MutexLock lock(&write_mu_);
  client_.Write(response);
}

}  // namespace dslide::cli
