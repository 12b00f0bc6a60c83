// Gather and Scatter as raw bytes: what protobuf's classes on the other side see of it.

#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "core/base/bfloat16.h"
#include "core/engine/math/kernels.h"
#include "core/protocol/reason_words.h"
#include "core/wire/bulk/bulk_codec.h"
#include "tests/unit/services/shard/shard_server_fixture.h"

namespace dslide::shard {
namespace {

class BulkServiceTest : public ShardServerTest {
 protected:
  // One message of any bytes and the end of the stream.
  absl::Status SendBytes(const char* method, const std::string& bytes) {
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    const auto channel = server_->runtime().InProcessChannel().value();
    const auto context = Context();
    grpc::Status status;
    absl::Notification done;
    grpc::GenericStub(channel).UnaryCall(context.get(), method, grpc::StubOptions(), &request,
                                         &response, [&](grpc::Status answered) {
                                           status = std::move(answered);
                                           done.Notify();
                                         });
    done.WaitForNotification();
    return FromGrpcStatus(status);
  }

  absl::StatusOr<GatherReply> Gather(const wire::GatherCall& call,
                                     v1::ElementType* type = nullptr) {
    v1::GatherRequest request;
    wire::EncodeGatherRequest(call, &request);
    const auto context = Context();
    const auto reader = stub_->Gather(context.get(), request);
    wire::GatherAssembler assembler;
    v1::GatherResponse message;
    absl::Status bad;
    while (reader->Read(&message)) {
      if (bad.ok()) bad = assembler.Add(message);
      if (type != nullptr) *type = message.rows().values().element_type();
    }
    const absl::Status status = FromGrpcStatus(reader->Finish());
    if (!status.ok()) return status;
    if (!bad.ok()) return bad;
    return std::move(assembler).Finish();
  }
};

TEST_F(BulkServiceTest, GarbledBytesAreRefusedByName) {
  Prepare();
  for (const char* method : {"/dslide.v1.ShardService/Scatter", "/dslide.v1.ShardService/Gather"}) {
    const absl::Status refused = SendBytes(method, "\x0a\x7f");
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_EQ(ReasonOf(refused), reason::kBadMessage);
  }
}

TEST_F(BulkServiceTest, HalvesAreTheRoundedFloats) {
  Prepare();
  wire::GatherCall call;
  call.command = trainer_.Gather();
  const auto floats = Gather(call);
  ASSERT_TRUE(floats.ok()) << floats.status();
  call.element_type = ActivationType::kBf16;
  v1::ElementType type = v1::ELEMENT_TYPE_UNSPECIFIED;
  const auto halves = Gather(call, &type);
  ASSERT_TRUE(halves.ok()) << halves.status();
  EXPECT_EQ(type, v1::ELEMENT_TYPE_BF16);
  const auto n = static_cast<int64_t>(floats->rows.values.size());
  std::vector<BFloat16> rounded(n);
  FloatsToBFloat16(floats->rows.values.data(), n, rounded.data());
  std::vector<float> expected(n);
  BFloat16ToFloats(rounded.data(), n, expected.data());
  EXPECT_EQ(halves->rows.values, expected);
  EXPECT_EQ(halves->rows.biases, floats->rows.biases);
}

TEST_F(BulkServiceTest, AGatherOfNothingHasOneMessage) {
  Prepare();
  wire::GatherCall call;
  call.command = trainer_.Gather();
  call.command.rows.clear();
  const auto none = Gather(call);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_TRUE(none->rows.rows.empty());
  EXPECT_EQ(none->rows.dim, kSampleDim);
}

TEST_F(BulkServiceTest, AGatherByFingerprintTellsTheSamplesAndTheirRows) {
  Prepare();
  wire::GatherCall call;
  call.command.model = "m";
  call.command.table = "head";
  call.command.by_fingerprint = true;
  call.command.batch = 3;
  for (uint32_t i = 0; i < 3 * 6; ++i) call.command.fingerprints.push_back(i % 8);
  const auto selected = Gather(call);
  ASSERT_TRUE(selected.ok()) << selected.status();
  ASSERT_EQ(selected->sample_offsets.size(), 4u);
  EXPECT_EQ(selected->sample_offsets.back(), selected->sample_rows.size());
  for (const RowId row : selected->sample_rows) {
    EXPECT_THAT(selected->rows.rows, ::testing::Contains(row));
  }
  wire::GatherCall by_id;
  by_id.command = trainer_.Gather();
  by_id.command.rows = selected->rows.rows;
  const auto rows = Gather(by_id);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(selected->rows.values, rows->rows.values);
  EXPECT_EQ(selected->rows.biases, rows->rows.biases);
}

TEST_F(BulkServiceTest, AFullBudgetRefusesAGatherBeforeItReads) {
  ShardServerOptions options;
  options.limits.bulk_bytes = 65536;
  Start(std::move(options));
  Prepare();
  // Scatters that have begun hold their bytes.
  struct Begun {
    std::unique_ptr<grpc::ClientContext> context;
    v1::ScatterResponse response;
    std::unique_ptr<grpc::ClientWriter<v1::ScatterRequest>> writer;
  };
  std::vector<std::unique_ptr<Begun>> begun;
  const auto messages =
      wire::EncodeScatter(trainer_.Scatter(ScatterMode::kAdd), ActivationType::kF32, 1);
  wire::GatherCall call;
  call.command = trainer_.Gather();
  absl::Status refused;
  while (begun.size() < 1000 && refused.ok()) {
    Begun& scatter = *begun.emplace_back(std::make_unique<Begun>());
    scatter.context = Context();
    scatter.writer = stub_->Scatter(scatter.context.get(), &scatter.response);
    ASSERT_TRUE(scatter.writer->Write(messages[0]));
    refused = Gather(call).status();
  }
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(ReasonOf(refused), reason::kBulkFull);
  for (const auto& scatter : begun) {
    scatter->context->TryCancel();
    (void)scatter->writer->Finish();
  }
}

// Rows applied from the middle of a message, at odd addresses, are the rows of a block.
TEST(ReceivedScatterTest, LeavesTheSameBitsAsABlock) {
  for (const auto mode : {ScatterMode::kGradient, ScatterMode::kAdd, ScatterMode::kAssign}) {
    for (const auto type : {ActivationType::kF32, ActivationType::kBf16}) {
      SampleTrainer trainer(1, 3);
      ScatterCommand command = trainer.Scatter(mode);
      for (float& value : command.rows.values) value = std::round(value * 64) / 64;  // exact halves
      const auto by_block = SampleCore(trainer);
      const auto by_message = SampleCore(trainer);
      ASSERT_TRUE(by_block->Apply(command).reply->status.ok());
      const std::string bytes =
          "x" + wire::EncodeScatter(command, type).front().SerializeAsString();
      const size_t cut = bytes.size() / 2;
      wire::ScatterAssembler assembler(1 << 20);
      ASSERT_TRUE(assembler
                      .Add({absl::string_view(bytes.data() + 1, cut - 1),
                            absl::string_view(bytes.data() + cut, bytes.size() - cut)},
                           nullptr)
                      .ok());
      auto received = std::move(assembler).Finish();
      ASSERT_TRUE(received.ok()) << received.status();
      const Answer answer = by_message->Apply(*std::move(received));
      ASSERT_TRUE(answer.reply->status.ok()) << answer.reply->status;
      EXPECT_EQ(by_message->Digest(), by_block->Digest());
      EXPECT_NE(by_message->Digest(), SampleCore(trainer)->Digest());
    }
  }
}

TEST(ReceivedScatterTest, IsHeldToTheModelsBoundAndShape) {
  SampleTrainer trainer(1, 3);
  const auto core = SampleCore(trainer);
  const uint64_t digest = core->Digest();
  const auto refusal = [&](ScatterCommand command) {
    wire::ScatterAssembler assembler(1 << 20);
    for (const auto& message : wire::EncodeScatter(command, ActivationType::kF32)) {
      EXPECT_TRUE(assembler.Add(message).ok());
    }
    return Reason(core->Apply(*std::move(assembler).Finish()));
  };
  ScatterCommand bad = trainer.Scatter(ScatterMode::kAdd);
  bad.rows.values[3] = 1000;
  EXPECT_EQ(refusal(bad), reason::kOverMagnitude);
  bad = trainer.Scatter(ScatterMode::kAdd);
  bad.rows.biases[1] = -1000;
  EXPECT_EQ(refusal(bad), reason::kOverMagnitude);
  bad = trainer.Scatter(ScatterMode::kAdd);
  bad.rows.biases.clear();
  EXPECT_EQ(refusal(bad), reason::kWrongBiases);
  bad = trainer.Scatter(ScatterMode::kAdd);
  bad.rows.dim /= 2;
  bad.rows.values.resize(bad.rows.values.size() / 2);
  EXPECT_EQ(refusal(bad), reason::kWrongDim);
  EXPECT_EQ(core->Digest(), digest);
}

}  // namespace
}  // namespace dslide::shard
