#include "core/system/sealed_text.h"

#include <gtest/gtest.h>

#include <string>

#include "core/base/crc32c.h"

namespace dslide {
namespace {

TEST(SealedTextTest, WhatIsSealedComesBack) {
  for (const std::string text : {"", "\n", "one line\n", "two\nlines\n"}) {
    const std::string sealed = SealText(text);
    const auto found = UnsealText(sealed);
    ASSERT_TRUE(found.has_value()) << text;
    EXPECT_EQ(*found, text);
  }
  // As files have it: the check value of this CRC.
  EXPECT_EQ(SealText("123456789"), "123456789crc32c e3069283\n");
}

TEST(SealedTextTest, EveryFlippedBitAndEveryCutIsNoticed) {
  const std::string sealed = SealText("restore_count 3\n");
  for (size_t i = 0; i < 8 * sealed.size(); ++i) {
    std::string bad = sealed;
    bad[i / 8] = static_cast<char>(bad[i / 8] ^ (1 << (i % 8)));
    EXPECT_FALSE(UnsealText(bad).has_value()) << i;
  }
  for (size_t size = 0; size < sealed.size(); ++size) {
    EXPECT_FALSE(UnsealText(sealed.substr(0, size)).has_value()) << size;
  }
  EXPECT_FALSE(UnsealText(sealed + "more\n").has_value());
}

TEST(SealedTextTest, TheNewlineBehindAnOpenTextIsNotSealed) {
  const std::string sealed = SealOpenText("123456789");
  EXPECT_EQ(sealed, "123456789\ncrc32c e3069283\n");
  const auto found = UnsealOpenText(sealed);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(*found, "123456789");
  EXPECT_FALSE(UnsealText(sealed).has_value());
  EXPECT_FALSE(UnsealOpenText(SealText("123456789\n")).has_value());
  for (size_t size = 0; size < sealed.size(); ++size) {
    EXPECT_FALSE(UnsealOpenText(sealed.substr(0, size)).has_value()) << size;
  }
  for (size_t i = 0; i < 8 * sealed.size(); ++i) {
    std::string bad = sealed;
    bad[i / 8] = static_cast<char>(bad[i / 8] ^ (1 << (i % 8)));
    EXPECT_FALSE(UnsealOpenText(bad).has_value()) << i;
  }
}

TEST(SealedTextTest, BytesAreSealedBySmallEndianFour) {
  const std::string sealed = SealBytes("123456789");
  EXPECT_EQ(sealed, "123456789\x83\x92\x06\xe3");
  const auto found = UnsealBytes(sealed);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(*found, "123456789");
  for (size_t size = 0; size < sealed.size(); ++size) {
    EXPECT_FALSE(UnsealBytes(sealed.substr(0, size)).has_value()) << size;
  }
  for (size_t i = 0; i < 8 * sealed.size(); ++i) {
    std::string bad = sealed;
    bad[i / 8] = static_cast<char>(bad[i / 8] ^ (1 << (i % 8)));
    EXPECT_FALSE(UnsealBytes(bad).has_value()) << i;
  }
}

}  // namespace
}  // namespace dslide
