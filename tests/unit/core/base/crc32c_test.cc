#include "core/base/crc32c.h"

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

// One bit at a time, from the definition: reflected polynomial 0x82f63b78.
uint32_t SlowCrc32c(absl::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
  }
  return ~crc;
}

std::string CheckedBytes(size_t size) {
  std::string bytes;
  for (size_t i = 0; i < size; ++i) bytes.push_back(static_cast<char>(i * 131 + 7));
  return bytes;
}

TEST(Crc32cTest, HasTheCheckValueOfTheStandard) {
  EXPECT_EQ(ExtendCrc32c(0, "123456789"), 0xe3069283u);
}

// RFC 3720, appendix B.4.
TEST(Crc32cTest, HasTheVectorsOfRfc3720) {
  EXPECT_EQ(ExtendCrc32c(0, std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(ExtendCrc32c(0, std::string(32, '\xff')), 0x62a8ab43u);
}

TEST(Crc32cTest, EqualsTheDefinitionAtEveryLength) {
  for (size_t size = 0; size < 70; ++size) {
    const std::string bytes = CheckedBytes(size);
    EXPECT_EQ(ExtendCrc32c(0, bytes), SlowCrc32c(bytes)) << size;
  }
}

TEST(Crc32cTest, ContinuesAcrossAnySplitAndAnyAlignment) {
  const std::string bytes = CheckedBytes(64);
  const uint32_t whole = SlowCrc32c(bytes);
  const absl::string_view view = bytes;
  for (size_t split = 0; split <= bytes.size(); ++split) {
    const uint32_t first = ExtendCrc32c(0, view.substr(0, split));
    EXPECT_EQ(ExtendCrc32c(first, view.substr(split)), whole);
  }
}

TEST(Crc32cTest, NothingChangesNothing) {
  EXPECT_EQ(ExtendCrc32c(0, ""), 0u);
  EXPECT_EQ(ExtendCrc32c(0x1234u, ""), 0x1234u);
}

}  // namespace
}  // namespace dslide
