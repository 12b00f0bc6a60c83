#include "client/export/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;

const std::vector<TensorInfo> kTensors = {
    {.name = "a", .type = TensorType::kF32, .shape = {2, 3}},
    {.name = "empty", .type = TensorType::kU8, .shape = {0}},
    {.name = "b \"\xc3\xa4", .type = TensorType::kBf16, .shape = {5}},
    {.name = "scalar", .type = TensorType::kI64, .shape = {}},
};

// A file whose header is this JSON, with so many bytes behind it.
absl::StatusOr<TensorHeader> Parsed(const std::string& json, int64_t bytes) {
  std::string file(8, '\0');
  const uint64_t length = json.size();
  std::memcpy(file.data(), &length, sizeof(length));
  file += json;
  return ParseTensorHeader("f", file, static_cast<int64_t>(file.size()) + bytes);
}

TEST(SafetensorsHeaderTest, WhatIsWrittenIsRead) {
  const TensorMetadata metadata = {{"key", "value \"\n"}, {"other", ""}};
  const std::string bytes = EncodeTensorHeader(kTensors, metadata);
  EXPECT_EQ(bytes.size() % 8, 0u);
  int64_t end = static_cast<int64_t>(bytes.size());
  for (const TensorInfo& tensor : kTensors) end += tensor.bytes();
  const auto header = ParseTensorHeader("f", bytes, end);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->metadata, metadata);
  ASSERT_EQ(header->tensors.size(), kTensors.size());
  int64_t begin = static_cast<int64_t>(bytes.size());
  for (size_t i = 0; i < kTensors.size(); ++i) {
    EXPECT_EQ(header->tensors[i].info, kTensors[i]);
    EXPECT_EQ(header->tensors[i].begin, begin);
    begin += kTensors[i].bytes();
  }
}

TEST(SafetensorsHeaderTest, DamageIsNamed) {
  const auto tensor = [](const char* type, const char* shape, const char* offsets) {
    return absl::StrCat("\"t\":{\"dtype\":\"", type, "\",\"shape\":", shape,
                        ",\"data_offsets\":", offsets, "}");
  };
  const struct {
    std::string json;
    int64_t bytes;
    const char* word;
  } kCases[] = {
      {"[]", 0, "no JSON object"},
      {"{\"t\":", 0, "no JSON object"},
      {"{\"t\":3}", 0, "is not described"},
      {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__"},
      {"{" + tensor("F32", "[1]", "[0,4]") + "," + tensor("F32", "[1]", "[0,4]") + "}", 4,
       "\"t\" twice"},
      {"{" + tensor("F32", "[1]", "[0,4]") + "}", 5, "its tensors end"},
      {"{" + tensor("F32", "[1]", "[0,4]") + "}", 3, "lies at"},
      {"{" + tensor("F32", "[1]", "[4,8]") + "}", 8, "begins at byte"},
      {"{" + tensor("F32", "[1]", "[4,0]") + "}", 8, "lies at"},
      {"{" + tensor("F32", "[2]", "[0,4]") + "}", 8, "its shape"},
      {"{" + tensor("F32", "[-1]", "[0,4]") + "}", 4, "shape that has -1"},
      {"{" + tensor("F32", "[1.0]", "[0,4]") + "}", 4, "shape that has 1.0"},
      {"{" + tensor("F32", "[281474976710656,281474976710656]", "[0,4]") + "}", 4,
       "beyond the file"},
      {"{" + tensor("F32", "[1]", "[0,18446744073709551615]") + "}", 4, "lies at"},
      {"{" + tensor("F32", "[1]", "[0]") + "}", 4, "lies at"},
      {"{" + tensor("F64", "[1]", "[0,8]") + "}", 8, "dtype F64"},
  };
  for (const auto& wrong : kCases) {
    const absl::Status status = Parsed(wrong.json, wrong.bytes).status();
    EXPECT_FALSE(status.ok()) << wrong.json;
    EXPECT_THAT(std::string(status.message()), HasSubstr(wrong.word)) << wrong.json;
  }
}

TEST(SafetensorsHeaderTest, ALengthBeyondTheFileIsRefused) {
  for (const std::string& start :
       {std::string(), std::string(7, '\0'), std::string(8, '\xff'), std::string(8, '\x10')}) {
    EXPECT_EQ(ParseTensorHeader("f", start, 1 << 20).status().code(), absl::StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace dslide
