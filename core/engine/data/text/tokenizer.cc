#include "core/engine/data/text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/engine/data/text/description_words.h"
#include "core/engine/data/text/unicode.h"

namespace dslide {
namespace {

constexpr int64_t kMaxCharacters = 16;

constexpr std::pair<TokenizerKind, absl::string_view> kTokenizerKinds[] = {
    {TokenizerKind::kWords, "words"},
    {TokenizerKind::kWhitespace, "whitespace"},
    {TokenizerKind::kCharacters, "characters"},
    {TokenizerKind::kDescriptions, "descriptions"},
};

// Appends the runs of characters that `joins` accepts.
template <typename Joins>
void CutRuns(absl::string_view text, bool ideographs_alone, Joins joins,
             std::vector<std::string>* tokens) {
  size_t start = 0;
  const auto finish = [&](size_t end) {
    if (end > start) tokens->emplace_back(text.substr(start, end - start));
  };
  for (size_t at = 0; at < text.size();) {
    const Character next = FirstCharacter(text.substr(at));
    const bool alone = ideographs_alone && IsIdeograph(next.code);
    if (alone || !joins(next.code)) {
      finish(at);
      if (alone) tokens->emplace_back(text.substr(at, next.bytes));
      start = at + next.bytes;
    }
    at += next.bytes;
  }
  finish(text.size());
}

// One blank for each run of separators, and one at either end: the ends of words show in the runs.
std::string Spaced(absl::string_view text) {
  std::string spaced = " ";
  while (!text.empty()) {
    const Character next = FirstCharacter(text);
    if (!IsSeparator(next.code)) {
      spaced.append(text.data(), next.bytes);
    } else if (spaced.back() != ' ') {
      spaced += ' ';
    }
    text.remove_prefix(next.bytes);
  }
  if (spaced.back() != ' ') spaced += ' ';
  return spaced;
}

void CutCharacters(absl::string_view text, const TokenizerOptions& options,
                   std::vector<std::string>* tokens) {
  const std::string spaced = Spaced(text);
  const absl::string_view view = spaced;
  std::vector<size_t> starts;  // of each character, and the end
  for (size_t at = 0; at < view.size(); at += FirstCharacter(view.substr(at)).bytes) {
    starts.push_back(at);
  }
  starts.push_back(view.size());
  const size_t characters = starts.size() - 1;
  for (size_t first = 0; first < characters; ++first) {
    for (auto count = static_cast<size_t>(options.min_characters);
         count <= static_cast<size_t>(options.max_characters) && first + count <= characters;
         ++count) {
      const absl::string_view token =
          view.substr(starts[first], starts[first + count] - starts[first]);
      if (token != " ") tokens->emplace_back(token);
    }
  }
}

void CutWellFormed(absl::string_view text, const TokenizerOptions& options,
                   std::vector<std::string>* tokens) {
  switch (options.kind) {
    case TokenizerKind::kWords:
      return CutRuns(text, /*ideographs_alone=*/true, &IsWordCharacter, tokens);
    case TokenizerKind::kWhitespace:
      return CutRuns(
          text, /*ideographs_alone=*/false, [](int32_t code) { return !IsSeparator(code); },
          tokens);
    case TokenizerKind::kCharacters:
      return CutCharacters(text, options, tokens);
    case TokenizerKind::kDescriptions:
      for (std::string& word : DescriptionWords(text)) tokens->push_back(std::move(word));
  }
}

}  // namespace

absl::Status TokenizerOptions::Validate() const {
  if (kind == TokenizerKind::kDescriptions && !lower_case) {
    return absl::InvalidArgumentError(
        "lower_case false: the tokenizer \"descriptions\" knows lower case only");
  }
  if (min_characters < 1 || max_characters > kMaxCharacters || min_characters > max_characters) {
    return absl::InvalidArgumentError(
        absl::StrCat("characters ", min_characters, " to ", max_characters, ": must be in [1, ",
                     kMaxCharacters, "], min_characters not above max_characters"));
  }
  return absl::OkStatus();
}

absl::string_view TokenizerKindName(TokenizerKind kind) {
  for (const auto& [known, name] : kTokenizerKinds) {
    if (known == kind) return name;
  }
  return "";
}

std::vector<std::string> TokenizerKindNames() {
  std::vector<std::string> names;
  for (const auto& [kind, name] : kTokenizerKinds) names.emplace_back(name);
  return names;
}

absl::StatusOr<TokenizerKind> TokenizerKindFromName(absl::string_view name) {
  for (const auto& [kind, known] : kTokenizerKinds) {
    if (known == name) return kind;
  }
  return absl::InvalidArgumentError(absl::StrCat("tokenizer \"", name, "\" is none of ",
                                                 absl::StrJoin(TokenizerKindNames(), ", ")));
}

void Tokenizer::Cut(absl::string_view text, std::vector<std::string>* tokens) const {
  std::string well_formed;
  if (FindMalformed(text) != absl::string_view::npos) {
    well_formed = ReplaceMalformed(text);
    text = well_formed;
  }
  // Descriptions leave out what is not ASCII, which folding could turn into it.
  if (!options_.lower_case || options_.kind == TokenizerKind::kDescriptions) {
    return CutWellFormed(text, options_, tokens);
  }
  CutWellFormed(FoldCase(text), options_, tokens);
}

}  // namespace dslide
