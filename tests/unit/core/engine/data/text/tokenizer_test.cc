#include "core/engine/data/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "core/engine/data/text/tokenizer_json.h"
#include "core/engine/data/text/unicode.h"
#include "tests/unit/core/engine/data/test_files.h"

namespace dslide {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string CutBy(const TokenizerOptions& options, absl::string_view text) {
  std::vector<std::string> tokens;
  Tokenizer(options).Cut(text, &tokens);
  return absl::StrJoin(tokens, "|");
}

TEST(TokenizerTest, WordsAreRunsOfLettersMarksDigitsAndConnectors) {
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {"", ""},
           {" -- !? ", ""},
           {"Machine-learning, word_2 (C#)", "machine|learning|word_2|c"},
           {"don't 3.5x", "don|t|3|5x"},
           {"MÜNCHEN Straße STRASSE", "münchen|strasse|strasse"},
           {"Cafe\u0301 café", "café|café"},  // in two characters and in one
           {"Ελλάδα ΕΛΛΆΔΑ", "ελλάδα|ελλάδα"},
           {"Москва́ и", "москва́|и"},  // the mark is no end
           {"हिन्दी", "हिन्दी"},
           {"東京タワーへ行く2回", "東|京|タワー|へ|行|く|2|回"},
           {"한국어 텍스트", "한국어|텍스트"},
           {"a\u00a0b\u2003c\u2028d\u0085e", "a|b|c|d|e"},
           {"ﬁx x² Ⅻ", "fix|x²|ⅻ"},
           {"a\xff\xfe"
            "b \xc3",
            "a|b"},  // malformed bytes separate words
           {std::string("nul\0byte", 8), "nul|byte"}}) {
    EXPECT_EQ(CutBy({}, text), words) << text;
  }
  EXPECT_EQ(CutBy({.lower_case = false}, "MÜNCHEN Straße"), "MÜNCHEN|Straße");
}

TEST(TokenizerTest, WhitespaceKeepsWhatStandsBetween) {
  const TokenizerOptions options = {.kind = TokenizerKind::kWhitespace, .lower_case = false};
  EXPECT_EQ(CutBy(options, "  C#\tmachine-learning,\r\n東京 \u3000x "),
            "C#|machine-learning,|東京|x");
  EXPECT_EQ(CutBy(options, "a\xff z"), "a\uFFFD|z");
  EXPECT_EQ(CutBy({.kind = TokenizerKind::kWhitespace}, "C# İX"), "c#|i\u0307x");
}

// Slow and obvious: every part of the spaced text.
std::vector<std::string> AllParts(const std::u32string& spaced, int64_t min, int64_t max) {
  std::vector<std::string> parts;
  for (size_t first = 0; first < spaced.size(); ++first) {
    for (int64_t n = min; n <= max; ++n) {
      std::string part;
      for (size_t at = first; at < spaced.size() && at < first + static_cast<size_t>(n); ++at) {
        const char32_t c = spaced[at];
        if (c < 0x80) {
          part += static_cast<char>(c);
        } else {  // the tests use two bytes at most
          part += static_cast<char>(0xc0 | (c >> 6));
          part += static_cast<char>(0x80 | (c & 0x3f));
        }
      }
      if (first + static_cast<size_t>(n) <= spaced.size() && part != " ") parts.push_back(part);
    }
  }
  return parts;
}

TEST(TokenizerTest, CharactersAreAllRunsWithTheEndsOfWords) {
  const auto cut = [](int64_t min, int64_t max, absl::string_view text) {
    std::vector<std::string> tokens;
    Tokenizer({.kind = TokenizerKind::kCharacters, .min_characters = min, .max_characters = max})
        .Cut(text, &tokens);
    return tokens;
  };
  EXPECT_THAT(cut(2, 3, "Ab"), ElementsAre(" a", " ab", "ab", "ab ", "b "));
  EXPECT_THAT(cut(3, 5, ""), IsEmpty());
  EXPECT_THAT(cut(1, 1, "  "), IsEmpty());
  for (int64_t min = 1; min <= 4; ++min) {
    for (int64_t max = min; max <= 16; max += 3) {
      EXPECT_EQ(cut(min, max, "\tÉté  de\nfeu"), AllParts(U" été de feu ", min, max));
    }
  }
}

TEST(TokenizerTest, FoldingIsStable) {
  for (const std::string text : {"ABC", "Straße", "İstanbul", "ΌΣΟΣ", "ﬃ", "K", "\xff"}) {
    const std::string folded = FoldCase(text);
    EXPECT_EQ(FoldCase(folded), folded) << text;
  }
  EXPECT_EQ(ReplaceMalformed("a\xc3(\xf0\x9f\x92"), "a\uFFFD(\uFFFD\uFFFD\uFFFD");
}

TEST(TokenizerJsonTest, TheFileIsRead) {
  for (const TokenizerOptions& options :
       {TokenizerOptions(),
        TokenizerOptions{.kind = TokenizerKind::kWhitespace, .lower_case = false},
        TokenizerOptions{
            .kind = TokenizerKind::kCharacters, .min_characters = 2, .max_characters = 4},
        TokenizerOptions{.kind = TokenizerKind::kDescriptions}}) {
    const auto read = TokenizerFromJson(TokenizerToJson(options), "x");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, options);
  }
  EXPECT_EQ(TokenizerToJson({}),
            "{\n  \"format\": 1,\n  \"kind\": \"words\",\n  \"lower_case\": true\n}\n");
  const TempDir dir;
  EXPECT_EQ(*FindTokenizer(dir.File("train.txt")), std::nullopt);
  WriteFile(dir.File("tokenizer.json"), TokenizerToJson({}));
  EXPECT_EQ(*FindTokenizer(dir.File("train.txt")), TokenizerOptions());
}

TEST(TokenizerJsonTest, WhatIsWrongIsNamed) {
  for (const auto& [text, found] : std::vector<std::pair<std::string, std::string>>{
           {"[]", "expected an object"},
           {"{", "expected an object"},
           {R"({"kind": "words"})", "\"format\""},
           {R"({"format": 2, "kind": "words"})", "has format 2, this version reads format 1: use"},
           {R"({"format": 1, "kind": "wordz"})", "none of words, whitespace, characters"},
           {R"({"format": 1, "kind": "words", "lower_case": 1})", "\"lower_case\": 1"},
           {R"({"format": 1, "kind": "words", "lang": "de"})", "\"lang\": \"de\""},
           {R"({"format": 1, "kind": "characters", "max_characters": 17})", "[1, 16]"},
           {R"({"format": 1, "kind": "descriptions", "lower_case": false})", "lower case only"}}) {
    const auto read = TokenizerFromJson(text, "my/tokenizer.json");
    EXPECT_FALSE(read.ok()) << text;
    EXPECT_THAT(std::string(read.status().message()),
                AllOf(HasSubstr("my/tokenizer.json: "), HasSubstr(found)));
  }
}

}  // namespace
}  // namespace dslide
