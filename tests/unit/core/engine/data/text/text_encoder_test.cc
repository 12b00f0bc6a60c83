#include "core/engine/data/text/text_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<std::string> kNames = {
    "東京", "München", "JavaScript", "machine-learning", "C#", "word_2", "c", "c++", "real",
    "time", "v2.0",    "",           "\xe9t\xe9"};

// "4:2 7:1 ?x": features with how often, then unknown words.
std::string Said(const std::optional<TokenizerOptions>& tokenizer, absl::string_view text) {
  const auto query = TextEncoder::Create(kNames, tokenizer)->Encode(text);
  if (!query.ok()) return "none";
  std::string result;
  for (size_t i = 0; i < query->batch.features.size(); ++i) {
    absl::StrAppend(&result, i == 0 ? "" : " ", query->batch.features[i].value(), ":",
                    query->batch.values[i]);
  }
  for (const std::string& word : query->unknown) absl::StrAppend(&result, " ?", word);
  return result;
}

TEST(TextEncoderTest, NamesAreFoundAsTheyStandWhoeverMadeThem) {
  for (const auto& [text, features] : std::vector<std::pair<std::string, std::string>>{
           {"東京", "0:1"},
           {"München", "1:1"},
           {"JavaScript", "2:1"},
           {"machine-learning", "3:1"},
           {"C#", "4:1"},
           {"word_2", "5:1"},
           {"C c C++ c", "6:3 7:1"},  // lower-cased where only that is a name
           {"(C#), \"machine-learning\"!", "3:1 4:1"},
           {"JavaScript/München", "1:1 2:1"},
           {"Real-time (C++), v2.0...", "7:1 8:1 9:1 10:1"},  // as descriptions of packages
           {"real-world", "8:1 ?world"},
           {"\xe9t\xe9", "12:1"},  // byte for byte, UTF-8 or not
           {"C# & co", "4:1 ?& ?co"},
           {"javascript", "none"},
           {"", "none"}}) {
    EXPECT_EQ(Said(std::nullopt, text), features) << text;
  }
}

TEST(TextEncoderTest, AKnownTokenizerComesBeforeWhatOneMayGuess) {
  // "(c)" is cut to "c" by it; by guessing, too, but "c/c++" is not.
  EXPECT_EQ(Said(TokenizerOptions(), "C/C++ (REAL) real"), "6:2 8:2");
  EXPECT_EQ(Said(TokenizerOptions(), "C# C#, unknown"), "4:1 6:1 ?unknown");
  const TokenizerOptions whitespace = {.kind = TokenizerKind::kWhitespace, .lower_case = false};
  EXPECT_EQ(Said(whitespace, "C# real, REAL other"), "4:1 8:2 ?other");
}

TEST(TextEncoderTest, RunsOfCharactersAreNotWords) {
  const std::vector<std::string> names = {"the", " th", "he ", "e t"};
  const auto encoder = TextEncoder::Create(
      names, TokenizerOptions{.kind = TokenizerKind::kCharacters, .max_characters = 3});
  const auto query = encoder->Encode("the the");
  ASSERT_TRUE(query.ok());
  EXPECT_THAT(query->batch.values, ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(query->unknown, IsEmpty());
}

TEST(TextEncoderTest, WithoutNamesThereIsNothingToFind) {
  const std::vector<std::string> names = {"", ""};
  EXPECT_EQ(TextEncoder::Create(names, std::nullopt).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(TextEncoder::Create(kNames, std::nullopt)->Encode("nothing").status().message()),
      HasSubstr("none of the words of \"nothing\""));
}

}  // namespace
}  // namespace dslide
