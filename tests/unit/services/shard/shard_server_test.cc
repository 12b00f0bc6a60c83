// The shard as clients see it: gRPC over an in-process channel.

#include "services/shard/shard_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "core/protocol/reason_words.h"
#include "core/wire/bulk/bulk_codec.h"
#include "core/wire/steps/step_answer_codec.h"
#include "tests/unit/services/shard/shard_server_fixture.h"

namespace dslide::shard {
namespace {

using ::testing::HasSubstr;
using Stream = grpc::ClientReaderWriter<v1::StepRequest, v1::StepResponse>;

TEST_F(ShardServerTest, TellsWhoItIs) {
  v1::GetServerInfoResponse info;
  ASSERT_TRUE(stub_->GetServerInfo(Context().get(), {}, &info).ok());
  EXPECT_EQ(info.shard_id(), 0);
  EXPECT_GT(info.generation(), 0u);
  EXPECT_FALSE(info.version().empty());
  EXPECT_EQ(info.max_message_bytes(), 4 << 20);
}

TEST_F(ShardServerTest, ManyRequestsInFlightAreAnsweredInOrder) {
  Prepare();
  trainer_.set_keep(500);
  const auto context = Context();
  const std::unique_ptr<Stream> stream = stub_->Step(context.get());
  constexpr int kSteps = 100;
  std::vector<v1::StepRequest> requests;
  for (int64_t step = 1; step <= kSteps; ++step) {
    requests.push_back(Request(trainer_.EmbedForward(), step));
    requests.push_back(Request(trainer_.HeadForward(), step));
    requests.push_back(Request(trainer_.HeadBackward(), step));
    requests.push_back(Request(trainer_.EmbedBackward(), step));
  }
  std::thread writer([&] {
    for (const auto& request : requests) EXPECT_TRUE(stream->Write(request));
    stream->WritesDone();
  });
  v1::StepResponse response;
  uint64_t sequence = 0;
  while (stream->Read(&response)) {
    EXPECT_EQ(response.sequence(), ++sequence);
    const auto answer = wire::DecodeStepResponse(response);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(answer->reply.status.ok()) << answer->reply.status;
  }
  writer.join();
  EXPECT_EQ(sequence, 4u * kSteps);
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(Describe()->tables[0].applied_steps, kSteps);
}

TEST_F(ShardServerTest, AnErrorAnswersItsOwnRequestOnly) {
  Prepare();
  trainer_.set_keep(100);
  const auto context = Context();
  const std::unique_ptr<Stream> stream = stub_->Step(context.get());
  v1::StepRequest good = Request(trainer_.EmbedForward(), 1);
  v1::StepRequest undecodable = Request(trainer_.EmbedForward(), 1);
  undecodable.mutable_embed_forward()->set_row_ids("odd");
  v1::StepRequest no_envelope = good;
  no_envelope.clear_envelope();
  v1::StepRequest refused = Request(trainer_.EmbedBackward(9), 1);
  v1::StepRequest last = Request(trainer_.EmbedBackward(), 1);
  for (const auto* request : {&good, &undecodable, &no_envelope, &refused, &undecodable, &last}) {
    ASSERT_TRUE(stream->Write(*request));
  }
  stream->WritesDone();
  const std::vector<std::string> expected = {
      "", reason::kBadSize, reason::kBadName, reason::kWrongBatch, reason::kBadSize, ""};
  for (const std::string& word : expected) {
    v1::StepResponse response;
    ASSERT_TRUE(stream->Read(&response));
    const auto answer = wire::DecodeStepResponse(response);
    ASSERT_TRUE(answer.ok());
    EXPECT_EQ(ReasonOf(answer->reply.status), word) << answer->reply.status;
  }
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ShardServerTest, ASecondStreamGetsTheAnswersOfTheFirst) {
  Prepare();
  const v1::StepRequest request = Request(trainer_.DenseScatter(), 1);
  v1::StepResponse first;
  v1::StepResponse second;
  for (v1::StepResponse* const response : {&first, &second}) {
    const auto context = Context();
    const std::unique_ptr<Stream> stream = stub_->Step(context.get());
    ASSERT_TRUE(stream->Write(request));
    ASSERT_TRUE(stream->Read(response));
    context->TryCancel();
    stream->Finish();
  }
  EXPECT_EQ(first.SerializeAsString(), second.SerializeAsString());
  EXPECT_EQ(Describe()->tables[1].applied_steps, 1);
}

TEST_F(ShardServerTest, AnOversizedMessageEndsTheCallWithAClearStatus) {
  Prepare();
  const auto context = Context();
  const std::unique_ptr<Stream> stream = stub_->Step(context.get());
  v1::StepRequest request = Request(trainer_.EmbedForward(), 1);
  request.mutable_embed_forward()->mutable_values()->assign(5 << 20, '\0');
  stream->Write(request);
  stream->WritesDone();
  v1::StepResponse response;
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("larger than max"));
  EXPECT_TRUE(Describe().ok()) << "the shard goes on";
}

TEST_F(ShardServerTest, UnknownModelsAndWrongShardsAreNamed) {
  EXPECT_EQ(ReasonOf(Describe().status()), reason::kUnknownModel);
  EXPECT_TRUE(absl::IsNotFound(Describe().status()));
  v1::CreateModelRequest request;
  wire::EncodeCreateModel(SampleCreate(SampleSpec(), 1), &request);
  v1::CreateModelResponse response;
  const absl::Status wrong =
      FromGrpcStatus(stub_->CreateModel(Context().get(), request, &response));
  EXPECT_EQ(ReasonOf(wrong), reason::kWrongShard);
  request.mutable_spec()->set_activations("f8");
  EXPECT_EQ(ReasonOf(FromGrpcStatus(stub_->CreateModel(Context().get(), request, &response))),
            reason::kBadEnum);
}

TEST_F(ShardServerTest, ADeadlineIsKeptAndNothingIsApplied) {
  Prepare();
  const uint64_t digest = HeadDigest();
  absl::Notification release;
  absl::Notification entered;
  ASSERT_TRUE(server_->sequencer()
                  .SubmitTask([&](ShardCore&) {
                    entered.Notify();
                    release.WaitForNotification();
                  })
                  .ok());
  entered.WaitForNotification();
  const ScatterCommand command = trainer_.Scatter(ScatterMode::kAssign);
  const auto late =
      Scatter(wire::EncodeScatter(command, ActivationType::kF32), absl::Milliseconds(100));
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.status())) << late.status();
  // The server's clock for the call started when the call arrived, a moment after the client's.
  absl::SleepFor(absl::Milliseconds(500));
  release.Notify();
  EXPECT_EQ(HeadDigest(), digest);
  // The same sequence, in time.
  EXPECT_TRUE(Scatter(wire::EncodeScatter(command, ActivationType::kF32)).ok());
  EXPECT_NE(HeadDigest(), digest);
}

TEST_F(ShardServerTest, ScatterAndGatherMoveRowsInChunks) {
  Prepare();
  ScatterCommand command = trainer_.Scatter(ScatterMode::kAssign);
  command.rows = trainer_.Block(trainer_.HeldRows(trainer_.map(), kSampleLabels, 60), true);
  ASSERT_EQ(Scatter(wire::EncodeScatter(command, ActivationType::kF32, 100)).value_or(-1), 1);
  ASSERT_EQ(Scatter(wire::EncodeScatter(command, ActivationType::kF32)).value_or(-1), 1);

  wire::GatherCall call;
  call.command.model = "m";
  call.command.table = "head";
  call.command.rows = command.rows.rows;
  v1::GatherRequest request;
  wire::EncodeGatherRequest(call, &request);
  const auto context = Context();
  const auto reader = stub_->Gather(context.get(), request);
  wire::GatherAssembler assembler;
  v1::GatherResponse message;
  while (reader->Read(&message)) ASSERT_TRUE(assembler.Add(message).ok());
  ASSERT_TRUE(reader->Finish().ok());
  const auto reply = std::move(assembler).Finish();
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->rows.rows, command.rows.rows);
  EXPECT_EQ(reply->rows.values, command.rows.values);
  EXPECT_EQ(reply->rows.biases, command.rows.biases);
}

TEST_F(ShardServerTest, HalfAScatterIsNoScatter) {
  Prepare();
  const uint64_t digest = HeadDigest();
  const ScatterCommand command = trainer_.Scatter(ScatterMode::kAssign);
  auto messages = wire::EncodeScatter(command, ActivationType::kF32, 1);
  const auto whole = messages;
  messages.pop_back();
  const auto cut = Scatter(messages);
  EXPECT_EQ(ReasonOf(cut.status()), reason::kIncomplete);
  EXPECT_EQ(HeadDigest(), digest);
  EXPECT_TRUE(Scatter(whole).ok()) << "the sequence is still open";
  auto bad = wire::EncodeScatter(trainer_.Scatter(ScatterMode::kAssign), ActivationType::kF32, 1);
  bad[1].mutable_rows()->set_row_ids("odd");
  EXPECT_EQ(ReasonOf(Scatter(bad).status()), reason::kBadSize);
  EXPECT_EQ(ReasonOf(Scatter(bad).status()), reason::kBadSize) << "a repetition";
  EXPECT_TRUE(
      Scatter(wire::EncodeScatter(trainer_.Scatter(ScatterMode::kAdd), ActivationType::kF32)).ok());
}

TEST_F(ShardServerTest, TopKAnswersWithItsMode) {
  Prepare();
  v1::TopKRequest request;
  wire::EncodeTopKRequest({.model = "m",
                           .table = "head",
                           .batch = 2,
                           .dim = kSampleDim,
                           .hidden = trainer_.Floats(2 * kSampleDim),
                           .k = 3,
                           .hashed = false,
                           .fingerprints = {}},
                          ActivationType::kF32, &request);
  v1::TopKResponse response;
  ASSERT_TRUE(stub_->TopK(Context().get(), request, &response).ok());
  EXPECT_EQ(response.mode(), v1::TOP_K_MODE_EXACT);
  const auto reply = wire::DecodeTopKResponse(response, 2, 3);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_GE(reply->scored.logits[0], reply->scored.logits[1]);
  EXPECT_EQ(response.scored_rows(),
            2 * server_->sequencer().mutations() + 2 * Describe()->tables[2].shard_rows);
}

TEST_F(ShardServerTest, CutsNeedADataDirectory) {
  const auto reason_of = [](const grpc::Status& status) {
    return std::string(ReasonOf(FromGrpcStatus(status)));
  };
  v1::FreezeStepsResponse freeze;
  EXPECT_EQ(reason_of(stub_->FreezeSteps(Context().get(), {}, &freeze)), reason::kNoDataDir);
  v1::AdmitStepsResponse admit;
  EXPECT_EQ(reason_of(stub_->AdmitSteps(Context().get(), {}, &admit)), reason::kNoDataDir);
  v1::CutCheckpointResponse cut;
  EXPECT_EQ(reason_of(stub_->CutCheckpoint(Context().get(), {}, &cut)), reason::kNoDataDir);
  v1::GetCheckpointProgressResponse progress;
  EXPECT_EQ(reason_of(stub_->GetCheckpointProgress(Context().get(), {}, &progress)),
            reason::kNoDataDir);
  v1::VerifyCheckpointResponse verify;
  EXPECT_EQ(reason_of(stub_->VerifyCheckpoint(Context().get(), {}, &verify)), reason::kNoDataDir);
  v1::RetainCheckpointsResponse retain;
  EXPECT_EQ(reason_of(stub_->RetainCheckpoints(Context().get(), {}, &retain)), reason::kNoDataDir);
  v1::RollbackResponse back;
  EXPECT_EQ(reason_of(stub_->Rollback(Context().get(), {}, &back)), reason::kNoDataDir);
}

TEST_F(ShardServerTest, WithoutADataDirectoryThereAreNoCheckpoints) {
  Prepare();
  v1::WriteCheckpointRequest request;
  request.set_model("m");
  request.set_checkpoint("one");
  v1::WriteCheckpointResponse response;
  const absl::Status status =
      FromGrpcStatus(stub_->WriteCheckpoint(Context().get(), request, &response));
  EXPECT_EQ(ReasonOf(status), reason::kNoDataDir);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
}

TEST_F(ShardServerTest, ByeRetiresTheClient) {
  Prepare();
  v1::CloseClientRequest request;
  wire::EncodeCloseClient(trainer_.CloseClient(), &request);
  v1::CloseClientResponse response;
  ASSERT_TRUE(stub_->CloseClient(Context().get(), request, &response).ok());
  EXPECT_EQ(ReasonOf(Hello(trainer_.Hello()).status()), reason::kClosedClient);
}

TEST_F(ShardServerTest, ADrainAnswersWhatWasSentAndEndsTheStream) {
  Prepare();
  trainer_.set_keep(100);
  const auto context = Context();
  const std::unique_ptr<Stream> stream = stub_->Step(context.get());
  v1::StepResponse response;
  ASSERT_TRUE(stream->Write(Request(trainer_.DenseScatter(), 1)));
  ASSERT_TRUE(stream->Read(&response));
  std::thread drain([&] { EXPECT_TRUE(server_->runtime().Drain().ok()); });
  EXPECT_FALSE(stream->Read(&response));
  const absl::Status status = FromGrpcStatus(stream->Finish());
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  drain.join();
}

TEST_F(ShardServerTest, CountsBytesAsTheWireDoes) {
  Prepare();
  const auto context = Context();
  const std::unique_ptr<Stream> stream = stub_->Step(context.get());
  const v1::StepRequest request = Request(trainer_.EmbedForward(), 1);
  v1::StepResponse response;
  ASSERT_TRUE(stream->Write(request));
  ASSERT_TRUE(stream->Read(&response));
  stream->WritesDone();
  ASSERT_TRUE(stream->Finish().ok());
  const std::string page = server_->metrics().Expose();
  EXPECT_THAT(page,
              HasSubstr("dslide_shard_messages_total{direction=\"received\",method=\"Step\"} 1"));
  EXPECT_THAT(page, HasSubstr("dslide_shard_messages_total{direction=\"sent\",method=\"Step\"} 1"));
  EXPECT_THAT(page, HasSubstr("grpc_server_started_total"));
}

TEST(ShardServerOptionsTest, MistakesAreNamedBeforeAnythingStarts) {
  ShardServerOptions options;
  options.server.listen = "127.0.0.1:0";
  EXPECT_TRUE(CheckShardServerOptions(options).ok());
  options.capacity_weight = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(CheckShardServerOptions(options)));
  options.capacity_weight = 1;
  options.server.insecure = true;
  options.server.listen = "0.0.0.0:0";
  EXPECT_TRUE(CheckShardServerOptions(options).ok());
  options.coordinator = "127.0.0.1:7000";
  EXPECT_THAT(std::string(CheckShardServerOptions(options).message()), HasSubstr("advertise"));
  options.advertise = "10.0.0.1:7000";
  EXPECT_TRUE(CheckShardServerOptions(options).ok());
  options.coordinator = "nonsense";
  EXPECT_TRUE(absl::IsInvalidArgument(CheckShardServerOptions(options)));
}

}  // namespace
}  // namespace dslide::shard
