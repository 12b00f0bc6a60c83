#include "core/wire/bulk/bulk_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/reason.h"
#include "core/engine/math/kernels.h"
#include "core/protocol/reason_words.h"
#include "core/wire/bulk/bulk_frames.h"
#include "core/wire/row_codec.h"
#include "tests/unit/core/wire/wire_samples.h"

namespace dslide::wire {
namespace {

using ::testing::HasSubstr;

// The generated classes are the reference: what they write, and what they read.

ScatterCommand ScatterOf(int64_t rows, int64_t dim, bool with_bias) {
  return {.envelope = SampleEnvelope(),
          .table = "t",
          .mode = ScatterMode::kAdd,
          .rows = SampleBlock(rows, dim, with_bias)};
}

// `bytes` cut before each of `cuts`, which ascend.
Pieces CutAt(const std::string& bytes, const std::vector<size_t>& cuts) {
  Pieces pieces;
  size_t from = 0;
  for (const size_t cut : cuts) {
    pieces.emplace_back(bytes.data() + from, cut - from);
    from = cut;
  }
  pieces.emplace_back(bytes.data() + from, bytes.size() - from);
  return pieces;
}

absl::StatusOr<ScatterCommand> Decode(const Pieces& message) {
  ScatterAssembler assembler(1 << 20);
  const absl::Status added = assembler.Add(message, nullptr);
  if (!added.ok()) return added;
  return std::move(assembler).Finish();
}

void ExpectRows(const absl::StatusOr<ScatterCommand>& got, const RowBlock& expected) {
  ASSERT_TRUE(got.ok()) << got.status();
  const RowBlock rows = got->received->ToBlock();
  EXPECT_EQ(rows.rows, expected.rows);
  EXPECT_EQ(rows.dim, expected.dim);
  EXPECT_EQ(rows.values, expected.values);
  EXPECT_EQ(rows.biases, expected.biases);
}

// A field of bytes, as protobuf writes it.
std::string Field(int number, const std::string& bytes) {
  EXPECT_LT(bytes.size(), 128u);
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}

TEST(BulkFramesTest, GatherFramesAreWhatTheGeneratedClassesWrite) {
  for (const bool with_bias : {false, true}) {
    for (const auto type : {ActivationType::kF32, ActivationType::kBf16}) {
      for (const int64_t count : {1, 3, 50, 1000}) {
        GatherReply reply;
        reply.rows = SampleBlock(count, 5, with_bias);
        v1::GatherResponse expected;
        ASSERT_TRUE(GatherChunker(reply, type).Next(&expected));
        const GatherFrame frame(
            {.count = count, .dim = 5, .type = type, .has_bias = with_bias, .total_rows = count});
        std::string bytes(static_cast<size_t>(frame.size()), '?');
        const RowChunk chunk = frame.Write(bytes.data());
        EXPECT_EQ((frame.lead() + (chunk.values - bytes.data())) % 64, 0);
        std::memcpy(chunk.ids, reply.rows.rows.data(), 4 * count);
        if (type == ActivationType::kF32) {
          std::memcpy(chunk.values, reply.rows.values.data(), 4 * 5 * count);
        } else {
          std::vector<BFloat16> halves(reply.rows.values.size());
          FloatsToBFloat16(reply.rows.values.data(), 5 * count, halves.data());
          std::memcpy(chunk.values, halves.data(), 2 * 5 * count);
        }
        ASSERT_EQ(chunk.biases != nullptr, with_bias);
        if (with_bias) std::memcpy(chunk.biases, reply.rows.biases.data(), 4 * count);
        EXPECT_EQ(bytes, expected.SerializeAsString());
      }
    }
  }
}

TEST(BulkFramesTest, ScatterFramesAreWhatTheGeneratedClassesWrite) {
  for (const bool with_bias : {false, true}) {
    for (const int64_t rows : {0, 1, 9, 300}) {
      const ScatterCommand command = ScatterOf(rows, 7, with_bias);
      for (const int64_t chunk_bytes : {1, 500, 1 << 20}) {
        const auto expected = EncodeScatter(command, ActivationType::kF32, chunk_bytes);
        const auto frames = FrameScatter(command, chunk_bytes);
        ASSERT_EQ(frames.size(), expected.size());
        for (size_t i = 0; i < frames.size(); ++i) {
          std::string bytes;
          for (const FramePart& part : frames[i]) {
            bytes += part.head;
            bytes.append(part.body.data(), part.body.size());
          }
          EXPECT_EQ(bytes, expected[i].SerializeAsString());
        }
      }
    }
  }
}

TEST(BulkCodecTest, AMessageMayBeCutAnywhere) {
  const ScatterCommand command = ScatterOf(5, 3, true);
  const std::string bytes =
      EncodeScatter(command, ActivationType::kF32).front().SerializeAsString();
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    ExpectRows(Decode(CutAt(bytes, {cut})), command.rows);
    ExpectRows(Decode(CutAt(bytes, {cut / 2, cut, cut})), command.rows);
  }
  std::vector<size_t> every;
  for (size_t i = 0; i < bytes.size(); ++i) every.push_back(i);
  ExpectRows(Decode(CutAt(bytes, every)), command.rows);
}

TEST(BulkCodecTest, FieldsMayComeInAnyOrderAndUnknownOnesAreSkipped) {
  const ScatterCommand command = ScatterOf(2, 3, true);
  const v1::ScatterRequest whole = EncodeScatter(command, ActivationType::kF32).front();
  const v1::RowBlock& block = whole.rows();
  v1::Matrix sides = block.values();
  sides.clear_data();
  const std::string unknown = Field(15, "from the future");
  const std::string matrix = unknown + Field(v1::Matrix::kDataFieldNumber, block.values().data()) +
                             sides.SerializeAsString();
  const std::string rows = Field(v1::RowBlock::kBiasesFieldNumber, block.biases()) + unknown +
                           Field(v1::RowBlock::kValuesFieldNumber, matrix) +
                           Field(v1::RowBlock::kRowIdsFieldNumber, block.row_ids());
  v1::ScatterRequest rest = whole;
  rest.clear_rows();
  const std::string bytes =
      unknown + Field(v1::ScatterRequest::kRowsFieldNumber, rows) + rest.SerializeAsString();
  v1::ScatterRequest by_protobuf;
  ASSERT_TRUE(by_protobuf.ParseFromString(bytes));
  ASSERT_EQ(by_protobuf.rows().values().data(), block.values().data());
  ExpectRows(Decode(CutAt(bytes, {10, 60})), command.rows);
}

TEST(BulkCodecTest, AsInProtobufTheLastOfSeveralFieldsCounts) {
  v1::ScatterRequest first = EncodeScatter(ScatterOf(2, 3, false), ActivationType::kF32).front();
  v1::ScatterRequest again;
  *again.mutable_rows() = first.rows();
  again.mutable_rows()->mutable_values()->mutable_data()->assign(24, '\0');
  const std::string bytes = first.SerializeAsString() + again.SerializeAsString();
  const auto got = Decode(CutAt(bytes, {}));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->received->ToBlock().values, std::vector<float>(6, 0.0f));
}

TEST(BulkCodecTest, CutAndGarbledBytesAreRefused) {
  const std::string bytes =
      EncodeScatter(ScatterOf(5, 3, true), ActivationType::kF32).front().SerializeAsString();
  int refused = 0;
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto got = Decode(CutAt(bytes.substr(0, size), {}));
    if (got.ok()) {  // cut right before the rows
      EXPECT_TRUE(got->received->rows.empty()) << size;
      continue;
    }
    EXPECT_TRUE(absl::IsInvalidArgument(got.status())) << got.status();
    if (ReasonOf(got.status()) == reason::kBadMessage) ++refused;
  }
  EXPECT_GT(refused, 20);
  // A length beyond the message, and one beyond everything.
  EXPECT_EQ(ReasonOf(Decode({absl::string_view("\x22\x7f\x0a\x01", 4)}).status()),
            reason::kBadMessage);
  EXPECT_EQ(ReasonOf(Decode({absl::string_view("\x22\xff\xff\xff\xff\x0f", 6)}).status()),
            reason::kBadMessage);
}

TEST(BulkCodecTest, HalvesAndFloatsMayFollowEachOther) {
  const ScatterCommand command = ScatterOf(4, 3, false);
  auto messages = EncodeScatter(command, ActivationType::kF32, 1);
  const auto halves = EncodeScatter(command, ActivationType::kBf16, 1);
  messages[2] = halves[2];
  ScatterAssembler assembler(1 << 20);
  for (const auto& message : messages) ASSERT_TRUE(assembler.Add(message).ok());
  ExpectRows(std::move(assembler).Finish(), command.rows);  // quarters: bf16 has them exactly
}

TEST(BulkCodecTest, TheLargestMagnitudeIsKnown) {
  ScatterCommand command = ScatterOf(4, 3, true);
  command.rows.values[7] = -77;
  command.rows.biases[2] = -5;
  const auto got =
      Decode(CutAt(EncodeScatter(command, ActivationType::kF32).front().SerializeAsString(), {}));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->received->max_value, 77);
  EXPECT_EQ(got->received->max_bias, 5);
}

TEST(BulkCodecTest, NumbersThatAreNoneAreNamed) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), -2e30f}) {
    for (const auto type : {ActivationType::kF32, ActivationType::kBf16}) {
      ScatterCommand command = ScatterOf(4, 3, true);
      command.rows.values[8] = bad;
      const std::string bytes = EncodeScatter(command, type).front().SerializeAsString();
      for (const size_t cut : {size_t{0}, bytes.size() - 60, bytes.size() - 40}) {
        const absl::Status refused = Decode(CutAt(bytes, {cut})).status();
        EXPECT_EQ(ReasonOf(refused), reason::kNotFinite);
        EXPECT_THAT(std::string(refused.message()), HasSubstr("position 8"));
      }
      command = ScatterOf(4, 3, true);
      command.rows.biases[3] = bad;
      const absl::Status refused =
          Decode(CutAt(EncodeScatter(command, type).front().SerializeAsString(), {})).status();
      EXPECT_EQ(ReasonOf(refused), reason::kNotFinite);
      EXPECT_THAT(std::string(refused.message()), HasSubstr("biases has"));
    }
  }
}

TEST(BulkCodecTest, AGatherCanFillTheCallersMemoryInItsOrder) {
  GatherReply reply;
  reply.rows = SampleBlock(3, 2, true);
  v1::GatherResponse message;
  ASSERT_TRUE(GatherChunker(reply, ActivationType::kF32).Next(&message));
  const std::string bytes = message.SerializeAsString();
  std::vector<float> values(4 * 2, -1);
  std::vector<float> biases(4, -1);
  const uint32_t places[] = {3, 0, 1};
  const GatherTarget target = {.rows = reply.rows.rows,
                               .dim = 2,
                               .values = absl::MakeSpan(values),
                               .biases = absl::MakeSpan(biases),
                               .places = places};
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    GatherAssembler assembler(target);
    ASSERT_TRUE(assembler.Add(CutAt(bytes, {cut})).ok());
    ASSERT_TRUE(std::move(assembler).Finish().ok());
    const std::vector<float>& v = reply.rows.values;
    EXPECT_EQ(values, (std::vector<float>{v[2], v[3], v[4], v[5], -1, -1, v[0], v[1]}));
    EXPECT_EQ(biases, (std::vector<float>{reply.rows.biases[1], reply.rows.biases[2], -1,
                                          reply.rows.biases[0]}));
  }
}

TEST(BulkCodecTest, AnAnswerThatDoesNotFitItsTargetIsRefused) {
  GatherReply reply;
  reply.rows = SampleBlock(3, 2, false);
  v1::GatherResponse message;
  ASSERT_TRUE(GatherChunker(reply, ActivationType::kF32).Next(&message));
  std::vector<float> values(100);
  const auto add = [&](std::vector<RowId> rows, int64_t dim) {
    const GatherTarget target = {
        .rows = rows, .dim = dim, .values = absl::MakeSpan(values), .biases = {}, .places = {}};
    return GatherAssembler(target).Add(message);
  };
  EXPECT_TRUE(add(reply.rows.rows, 2).ok());
  EXPECT_TRUE(absl::IsInternal(add(reply.rows.rows, 3)));
  EXPECT_TRUE(absl::IsInternal(add({RowId(1), RowId(4)}, 2)));
  EXPECT_TRUE(absl::IsInternal(add({RowId(1), RowId(4), RowId(8)}, 2)));
}

}  // namespace
}  // namespace dslide::wire
