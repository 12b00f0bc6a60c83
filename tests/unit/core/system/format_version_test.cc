#include "core/system/format_version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/system/sealed_text.h"

namespace dslide {
namespace {

TEST(FormatVersionTest, ARefusalNamesBothVersionsAndTheRemedy) {
  EXPECT_TRUE(CheckFormat("STATE", 1, {.oldest = 1, .newest = 3}).ok());
  EXPECT_TRUE(CheckFormat("STATE", 3, {.oldest = 1, .newest = 3}).ok());
  const absl::Status later = CheckFormat("STATE", 4, {.oldest = 1, .newest = 3});
  EXPECT_TRUE(absl::IsFailedPrecondition(later));
  EXPECT_EQ(std::string(later.message()),
            "STATE has format 4, this version reads formats 1 to 3: use the version that wrote it "
            "or a later one");
  EXPECT_EQ(std::string(CheckFormat("STATE", 1, {.oldest = 2, .newest = 2}).message()),
            "STATE has format 1, this version reads format 2: use the version that wrote it");
}

TEST(FormatVersionTest, IsTheNumberBehindAWordAndNothingElse) {
  EXPECT_EQ(VersionBehind("DSLIMAG", "DSLIMAG3"), 3);
  EXPECT_EQ(VersionBehind("dslide files ", "dslide files 120"), 120);
  for (const char* word : {"", "DSLIMAG", "DSLIMAG-1", "DSLIMAG 1", "DSLIMAG1x", "XSLIMAG1",
                           "DSLIMAG99999999999999999999"}) {
    EXPECT_EQ(VersionBehind("DSLIMAG", word), std::nullopt) << word;
  }
}

TEST(FormatVersionTest, OfASealedTextIsInItsFirstLine) {
  const auto check = [](const std::string& text) {
    return CheckSealedFormat("FILE", text, "dslide words ", {.oldest = 1, .newest = 2});
  };
  EXPECT_TRUE(check(SealText("dslide words 2\nx\n")).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(check(SealText("dslide words 3\nx\n"))));
  EXPECT_TRUE(absl::IsFailedPrecondition(check(SealText("dslide words 0\n"))));
  // Not for this to say what is wrong with them.
  EXPECT_TRUE(check("dslide words 3\nx\n").ok());
  EXPECT_TRUE(check(SealText("dslide other 3\n")).ok());
  EXPECT_TRUE(check("").ok());
}

}  // namespace
}  // namespace dslide
