#include "core/wire/arrays/matrix_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/base/reason.h"
#include "core/protocol/reason_words.h"

namespace dslide::wire {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<MatrixReply> DecodeAny(const v1::Matrix& matrix) {
  return DecodeMatrix("hidden", matrix, {1, kMaxBatch}, {1, kMaxMatrixSide}, Floats::kBounded);
}

std::string MatrixReason(const v1::Matrix& matrix) {
  const absl::StatusOr<MatrixReply> decoded = DecodeAny(matrix);
  EXPECT_TRUE(absl::IsInvalidArgument(decoded.status())) << decoded.status();
  return ReasonOf(decoded.status());
}

TEST(MatrixCodecTest, BothElementTypesComeBack) {
  const std::vector<float> data = {1.0f, -2.5f, 0.0f, 3.14159f, 1e-3f, -7.0f};
  v1::Matrix matrix;
  EncodeMatrix(2, 3, data, {}, &matrix);
  EXPECT_EQ(matrix.data().size(), 24u);
  const auto exact =
      DecodeMatrix("x", matrix, Count::Exactly(2), Count::Exactly(3), Floats::kBounded);
  ASSERT_TRUE(exact.ok()) << exact.status();
  EXPECT_EQ(exact->data, data);
  EXPECT_EQ(exact->rows, 2);
  EXPECT_EQ(exact->cols, 3);

  EncodeMatrix(2, 3, data, {.type = ActivationType::kBf16}, &matrix);
  EXPECT_EQ(matrix.data().size(), 12u);
  const auto rounded =
      DecodeMatrix("x", matrix, Count::AtMost(2), Count::AtMost(3), Floats::kBounded);
  ASSERT_TRUE(rounded.ok()) << rounded.status();
  for (size_t i = 0; i < data.size(); ++i) {
    // 8 bits of mantissa, rounded to nearest.
    EXPECT_LE(std::abs(rounded->data[i] - data[i]), std::abs(data[i]) / 256) << i;
  }
}

TEST(MatrixCodecTest, WhatDoesNotFitTogetherIsRefused) {
  v1::Matrix good;
  EncodeMatrix(2, 3, std::vector<float>(6), {}, &good);
  ASSERT_TRUE(DecodeAny(good).ok());
  v1::Matrix bad = good;
  bad.set_element_type(v1::ELEMENT_TYPE_UNSPECIFIED);
  EXPECT_EQ(MatrixReason(bad), reason::kBadEnum);
  bad = good;
  bad.set_rows(3);
  EXPECT_EQ(MatrixReason(bad), reason::kBadSize);
  bad = good;
  bad.set_rows(0);
  EXPECT_EQ(MatrixReason(bad), reason::kBadSize);
  bad = good;
  bad.set_cols(65537);
  EXPECT_EQ(MatrixReason(bad), reason::kOverLimit);
  bad = good;
  // The product would wrap around in 32 bits.
  bad.set_rows(65536);
  bad.set_cols(65536);
  EXPECT_EQ(MatrixReason(bad), reason::kBadSize);
  bad = good;
  bad.set_element_type(v1::ELEMENT_TYPE_BF16);
  bad.set_data(std::string("\x80\x7f\0\0\0\0\0\0\0\0\0\0", 12));  // infinity
  EXPECT_EQ(MatrixReason(bad), reason::kNotFinite);
}

TEST(MatrixCodecTest, ZerosDoNotTravelAndComeBack) {
  constexpr int64_t kCols = 11;
  std::vector<float> data(3 * kCols);
  data[0] = 1.5f;
  data[7] = -0.0f;
  data[10] = 2.0f;
  data[2 * kCols + 8] = -3.0f;
  for (const ActivationType type : {ActivationType::kF32, ActivationType::kBf16}) {
    v1::Matrix matrix;
    EncodeMatrix(3, kCols, data, {.type = type, .sparse = true}, &matrix);
    EXPECT_EQ(matrix.data().size(), type == ActivationType::kF32 ? 16u : 8u);
    EXPECT_EQ(matrix.present(), std::string("\x81\x04\0\0\0\x01", 6));
    const auto decoded = DecodeAny(matrix);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_TRUE(decoded->sparse);
    EXPECT_EQ(decoded->data, data);
    EXPECT_TRUE(std::signbit(decoded->data[7]));
  }
}

TEST(MatrixCodecTest, AMatrixOfZerosIsBitsAlone) {
  v1::Matrix matrix;
  EncodeMatrix(2, 8, std::vector<float>(16), {.sparse = true}, &matrix);
  EXPECT_EQ(matrix.data(), "");
  EXPECT_EQ(matrix.present(), std::string(2, '\0'));
  EXPECT_EQ(DecodeAny(matrix)->data, std::vector<float>(16));
}

TEST(MatrixCodecTest, AllTravelWhereThatIsShorter) {
  const std::vector<float> data(16, 1.0f);
  v1::Matrix matrix;
  EncodeMatrix(2, 8, data, {.sparse = true}, &matrix);
  EXPECT_EQ(matrix.present(), "");
  EXPECT_EQ(DecodeAny(matrix)->data, data);
  EXPECT_FALSE(DecodeAny(matrix)->sparse);
}

TEST(MatrixCodecTest, BitsThatDoNotFitAreRefused) {
  v1::Matrix good;
  EncodeMatrix(2, 11, std::vector<float>(22), {.sparse = true}, &good);
  ASSERT_TRUE(DecodeAny(good).ok());
  v1::Matrix bad = good;
  bad.set_present(good.present() + '\0');
  EXPECT_EQ(MatrixReason(bad), reason::kBadSize);
  bad = good;
  bad.set_data("1234");  // of no element
  EXPECT_EQ(MatrixReason(bad), reason::kBadSize);
  bad = good;
  (*bad.mutable_present())[2] = 1;  // its element is missing
  EXPECT_EQ(MatrixReason(bad), reason::kBadSize);
  bad = good;
  (*bad.mutable_present())[3] = 8;  // column 11
  EXPECT_EQ(MatrixReason(bad), reason::kOutOfRange);
  EXPECT_THAT(std::string(DecodeAny(bad).status().message()),
              HasSubstr("hidden.present has a bit behind column 10 in row 1"));
  bad = good;
  (*bad.mutable_data()) = std::string("\0\0\x80\x7f", 4);  // infinity
  (*bad.mutable_present())[0] = 1;
  EXPECT_EQ(MatrixReason(bad), reason::kNotFinite);
  // A few bytes may not ask for gigabytes.
  bad = good;
  bad.set_rows(65536);
  bad.set_cols(65536);
  EXPECT_EQ(MatrixReason(bad), reason::kOverLimit);
}

}  // namespace
}  // namespace dslide::wire
