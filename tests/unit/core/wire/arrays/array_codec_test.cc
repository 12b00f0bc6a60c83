#include "core/wire/arrays/array_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/reason.h"
#include "core/protocol/reason_words.h"

namespace dslide::wire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ArrayBytes(std::initializer_list<int> values) {
  std::string bytes;
  for (const int value : values) bytes.push_back(static_cast<char>(value));
  return bytes;
}

template <typename T>
std::string ReasonIn(const absl::StatusOr<T>& result) {
  EXPECT_TRUE(absl::IsInvalidArgument(result.status())) << result.status();
  return ReasonOf(result.status());
}

TEST(ArrayCodecTest, NumbersAreLittleEndianOnTheWire) {
  std::string bytes;
  EncodeU32s({0x01020304u, 5u}, &bytes);
  EXPECT_EQ(bytes, ArrayBytes({4, 3, 2, 1, 5, 0, 0, 0}));
  EncodeFloats({1.0f}, &bytes);
  EXPECT_EQ(bytes, ArrayBytes({0, 0, 0x80, 0x3f}));
  EncodeRowIds({RowId(258)}, &bytes);
  EXPECT_EQ(bytes, ArrayBytes({2, 1, 0, 0}));
}

TEST(ArrayCodecTest, DecodingInvertsEncoding) {
  std::string bytes;
  EncodeU32s({7, 0, 0xffffffffu}, &bytes);
  EXPECT_THAT(*DecodeU32s("x", bytes, Count::AtMost(3)), ElementsAre(7, 0, 0xffffffffu));
  EncodeFloats({-0.0f, 1e-42f, 1e30f}, &bytes);
  const auto floats = DecodeFloats("x", bytes, Count::Exactly(3), Floats::kBounded);
  EXPECT_THAT(*floats, ElementsAre(-0.0f, 1e-42f, 1e30f));
  EXPECT_TRUE(std::signbit((*floats)[0]));
  EncodeRowIds({RowId(3), RowId(1)}, &bytes);
  EXPECT_THAT(*DecodeRowIds("x", bytes, Count::AtMost(9)), ElementsAre(RowId(3), RowId(1)));
  EXPECT_TRUE(DecodeU32s("x", "", Count::AtMost(3))->empty());
}

TEST(ArrayCodecTest, CountsThatDoNotFitAreRefusedWithTheirNumbers) {
  const auto odd = DecodeU32s("label_ids", "12345", Count::AtMost(9));
  EXPECT_EQ(ReasonIn(odd), reason::kBadSize);
  EXPECT_THAT(std::string(odd.status().message()), HasSubstr("label_ids has 5 bytes"));
  EXPECT_EQ(ReasonIn(DecodeU32s("x", "12345678", Count::Exactly(3))), reason::kBadSize);
  EXPECT_EQ(ReasonIn(DecodeU32s("x", "12345678", Count::AtMost(1))), reason::kOverLimit);
  EXPECT_EQ(ReasonIn(DecodeFloats("x", "1234", Count::Exactly(0), Floats::kAny)), reason::kBadSize);
}

TEST(ArrayCodecTest, NumbersThatAreNoneAreRefusedWithTheirPosition) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity(), 3e38f, -2e30f}) {
    std::string bytes;
    EncodeFloats({0.0f, bad}, &bytes);
    const auto refused = DecodeFloats("values", bytes, Count::Exactly(2), Floats::kBounded);
    EXPECT_EQ(ReasonIn(refused), reason::kNotFinite) << bad;
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("at position 1"));
    EXPECT_TRUE(DecodeFloats("values", bytes, Count::Exactly(2), Floats::kAny).ok());
  }
}

TEST(ArrayCodecTest, RowIdsBeyondAnyTableAreRefused) {
  std::string bytes;
  EncodeU32s({0x7fffffffu}, &bytes);
  EXPECT_TRUE(DecodeRowIds("x", bytes, Count::AtMost(1)).ok());
  EncodeU32s({0x80000000u}, &bytes);
  EXPECT_EQ(ReasonIn(DecodeRowIds("x", bytes, Count::AtMost(1))), reason::kBadRowId);
}

TEST(ArrayCodecTest, AscendingMeansStrictly) {
  std::string bytes;
  for (const auto& bad : {std::vector<uint32_t>{2, 1}, {1, 1}, {0, 5, 5, 6}}) {
    EncodeU32s(bad, &bytes);
    EXPECT_EQ(ReasonIn(DecodeAscendingRowIds("x", bytes, Count::AtMost(9))), reason::kNotAscending);
  }
  EncodeU32s({1, 2, 9}, &bytes);
  EXPECT_TRUE(DecodeAscendingRowIds("x", bytes, Count::AtMost(9)).ok());
}

TEST(ArrayCodecTest, OffsetsAscendFromZero) {
  std::string bytes;
  EncodeU32s({0, 2, 2, 5}, &bytes);
  EXPECT_THAT(*DecodeOffsets("x", bytes, Count::Exactly(3)), ElementsAre(0, 2, 2, 5));
  EXPECT_EQ(ReasonIn(DecodeOffsets("x", bytes, Count::Exactly(4))), reason::kBadSize);
  EncodeU32s({1, 2}, &bytes);
  EXPECT_EQ(ReasonIn(DecodeOffsets("x", bytes, Count::Exactly(1))), reason::kBadOffsets);
  EncodeU32s({0, 2, 1}, &bytes);
  EXPECT_EQ(ReasonIn(DecodeOffsets("x", bytes, Count::Exactly(2))), reason::kBadOffsets);
  EXPECT_EQ(ReasonIn(DecodeOffsets("x", "", Count::Exactly(0))), reason::kBadSize);
}

TEST(ArrayCodecTest, IdsOfDifferentSamplesNeedNotAscend) {
  const std::vector<uint32_t> offsets = {0, 2, 2, 4};
  const std::vector<RowId> rows = {RowId(5), RowId(9), RowId(1), RowId(2)};
  EXPECT_TRUE(CheckAscendingInSamples("x", offsets, rows).ok());
  const std::vector<RowId> bad = {RowId(5), RowId(9), RowId(2), RowId(2)};
  EXPECT_EQ(ReasonOf(CheckAscendingInSamples("x", offsets, bad)), reason::kNotAscending);
}

}  // namespace
}  // namespace dslide::wire
