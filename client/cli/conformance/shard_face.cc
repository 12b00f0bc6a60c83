#include "client/cli/conformance/shard_face.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/conformance/step_relay.h"
#include "core/base/retry_after.h"
#include "core/protocol/reason_words.h"
#include "services/common/status_mapping.h"

namespace dslide::cli {
namespace {

// New operations on a shard before its trouble comes: in the first epoch of the first training.
constexpr int64_t kStepsBeforeCut = 10;
constexpr int64_t kStepsBeforeMove = 18;
constexpr int64_t kStepsBeforeBusy = 26;
constexpr absl::Duration kBusyPause = absl::Milliseconds(20);

}  // namespace

grpc::Status BrokenConnection() {
  return {grpc::StatusCode::UNAVAILABLE, "the connection broke (the course does that on purpose)"};
}

absl::Status BusyShard() {
  return OverloadStatus(reason::kQueueFull, "the shard is busy (the course says so on purpose)",
                        kBusyPause);
}

ShardFace::ShardFace(int shard, const std::shared_ptr<grpc::Channel>& channel, CourseChecks& checks)
    : shard_(shard), checks_(checks), stub_(v1::ShardService::NewStub(channel)) {}

uint64_t ShardFace::Shown(uint64_t generation) const {
  return generation == 0 ? 0 : generation + moved_;
}

uint64_t ShardFace::Real(uint64_t generation) const {
  const uint64_t real = real_generation_;
  if (generation == 0 || real == 0) return generation;
  return generation == real + moved_ ? real : real + 1;
}

Trouble ShardFace::NextStepTrouble(bool idle) {
  const absl::MutexLock lock(&mu_);
  ++steps_;
  if (shard_ == 0 && steps_ == kStepsBeforeCut) return Trouble::kLostAnswer;
  if (shard_ == 1 && steps_ == kStepsBeforeMove) return Trouble::kMoved;
  if (shard_ == 0 && steps_ >= kStepsBeforeBusy && idle && !was_busy_) {
    was_busy_ = true;
    return Trouble::kBusy;
  }
  return Trouble::kNone;
}

Trouble ShardFace::NextScatterTrouble() {
  const absl::MutexLock lock(&mu_);
  ++scatters_;
  if (shard_ == 0 && scatters_ == 2) return Trouble::kLostAnswer;
  if (shard_ == 1 && scatters_ == 3) return Trouble::kBusy;
  return Trouble::kNone;
}

void ShardFace::Check(const Context& context, absl::string_view call, DeadlineRule rule) {
  CheckCall(context, call, rule, checks_.verdicts);
}

grpc::Status ShardFace::GetServerInfo(Context* context, const v1::GetServerInfoRequest* request,
                                      v1::GetServerInfoResponse* response) {
  Check(*context, "GetServerInfo");
  grpc::Status status =
      Forward(*context, *stub_, &v1::ShardService::Stub::GetServerInfo, *request, response);
  response->set_generation(Shown(response->generation()));
  return status;
}

grpc::Status ShardFace::Hello(Context* context, const v1::HelloRequest* request,
                              v1::HelloResponse* response) {
  Check(*context, "Hello");
  grpc::Status status =
      Forward(*context, *stub_, &v1::ShardService::Stub::Hello, *request, response);
  if (!status.ok()) return status;
  real_generation_ = response->generation();
  response->set_generation(Shown(response->generation()));
  checks_.sequence.Greeted(shard_, *request, response->generation());
  return status;
}

grpc::Status ShardFace::CloseClient(Context* context, const v1::CloseClientRequest* request,
                                    v1::CloseClientResponse* response) {
  Check(*context, "CloseClient");
  checks_.sequence.Closed(shard_, *request);
  return Forward(*context, *stub_, &v1::ShardService::Stub::CloseClient, *request, response);
}

grpc::Status ShardFace::Step(Context* context,
                             grpc::ServerReaderWriter<v1::StepResponse, v1::StepRequest>* stream) {
  Check(*context, "Step", DeadlineRule::kNotLooked);
  return StepRelay(*this, *context, *stream).Run();
}

grpc::Status ShardFace::Gather(Context* context, const v1::GatherRequest* request,
                               grpc::ServerWriter<v1::GatherResponse>* writer) {
  Check(*context, "Gather");
  {
    const absl::MutexLock lock(&mu_);
    if (shard_ == 0 && ++gathers_ == 1) return BrokenConnection();
  }
  checks_.rows.Gather(shard_, *request);
  const std::unique_ptr<grpc::ClientContext> behind = ContextBehind(*context);
  const auto reader = stub_->Gather(behind.get(), *request);
  v1::GatherResponse part;
  while (reader->Read(&part)) {
    if (!writer->Write(part)) behind->TryCancel();
  }
  return reader->Finish();
}

grpc::Status ShardFace::Scatter(Context* context, grpc::ServerReader<v1::ScatterRequest>* reader,
                                v1::ScatterResponse* response) {
  Check(*context, "Scatter");
  std::vector<v1::ScatterRequest> messages;
  for (v1::ScatterRequest message; reader->Read(&message);) messages.push_back(std::move(message));
  if (messages.empty()) return {grpc::StatusCode::INVALID_ARGUMENT, "there is no message"};
  const v1::RequestEnvelope envelope = messages.front().envelope();
  std::string content;
  for (v1::ScatterRequest bare : messages) {
    bare.clear_envelope();
    content += bare.SerializeAsString();
  }
  const Freshness freshness = checks_.sequence.Look({.shard = shard_,
                                                     .call = "Scatter",
                                                     .envelope = envelope,
                                                     .content = content,
                                                     .generation = CurrentGeneration()});
  Trouble trouble = Trouble::kNone;
  if (freshness == Freshness::kNew) {
    checks_.rows.Scatter(shard_, messages);
    trouble = NextScatterTrouble();
  }
  if (trouble == Trouble::kBusy) return ToGrpcStatus(BusyShard());
  messages.front().mutable_envelope()->set_generation(Real(envelope.generation()));
  const std::unique_ptr<grpc::ClientContext> behind = ContextBehind(*context);
  const auto writer = stub_->Scatter(behind.get(), response);
  for (const v1::ScatterRequest& message : messages) {
    if (!writer->Write(message)) break;
  }
  writer->WritesDone();
  grpc::Status status = writer->Finish();
  response->set_generation(Shown(response->generation()));
  if (trouble == Trouble::kLostAnswer && status.ok()) {
    checks_.sequence.Lost(shard_, envelope.client_id(), envelope.sequence());
    return BrokenConnection();
  }
  if (status.ok() || status.error_code() == grpc::StatusCode::INVALID_ARGUMENT) {
    checks_.sequence.Answered(shard_, envelope.client_id(), envelope.sequence());
  }
  return status;
}

grpc::Status ShardFace::Read(Context* context, const v1::ReadRequest* request,
                             v1::ReadResponse* response) {
  Check(*context, "Read");
  return Forward(*context, *stub_, &v1::ShardService::Stub::Read, *request, response);
}

grpc::Status ShardFace::TopK(Context* context, const v1::TopKRequest* request,
                             v1::TopKResponse* response) {
  Check(*context, "TopK");
  grpc::Status status =
      Forward(*context, *stub_, &v1::ShardService::Stub::TopK, *request, response);
  if (status.ok()) checks_.rows.TopK(shard_, *request, *response);
  return status;
}

grpc::Status ShardFace::DescribeModel(Context* context, const v1::DescribeModelRequest* request,
                                      v1::DescribeModelResponse* response) {
  Check(*context, "DescribeModel");
  return Forward(*context, *stub_, &v1::ShardService::Stub::DescribeModel, *request, response);
}

grpc::Status ShardFace::ReadRows(Context* context, const v1::ReadRowsRequest* request,
                                 v1::ReadRowsResponse* response) {
  Check(*context, "ReadRows");
  return Forward(*context, *stub_, &v1::ShardService::Stub::ReadRows, *request, response);
}

}  // namespace dslide::cli
