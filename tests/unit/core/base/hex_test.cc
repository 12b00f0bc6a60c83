#include "core/base/hex.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

TEST(HexTest, EveryByteComesBackInEitherCase) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  const std::string hex = absl::BytesToHexString(bytes);
  EXPECT_EQ(BytesFromHex(hex), bytes);
  EXPECT_EQ(BytesFromHex(absl::AsciiStrToUpper(hex)), bytes);
}

TEST(HexTest, NoDigitsAreNoBytes) { EXPECT_EQ(BytesFromHex(""), ""); }

TEST(HexTest, OtherTextIsNothing) {
  for (const absl::string_view text :
       {"0", "abc", "0x", "g0", "0g", "1 ", " 1", "/0", ":0", "@0", "`0", "-1", "\xff\xff"}) {
    EXPECT_EQ(BytesFromHex(text), std::nullopt) << text;
  }
  EXPECT_EQ(BytesFromHex(absl::string_view("1\0", 2)), std::nullopt);
}

}  // namespace
}  // namespace dslide
