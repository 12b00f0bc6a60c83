#include "core/engine/data/text/text_encoder.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/engine/data/text/unicode.h"

namespace dslide {
namespace {

// Of sentences: '#' and '+' belong to words such as "C#".
std::string WithoutPunctuation(const std::string& part) {
  constexpr absl::string_view kPunctuation = ".,;:!?()[]{}<>\"'`";
  const absl::string_view view = part;
  const size_t first = view.find_first_not_of(kPunctuation);
  if (first == absl::string_view::npos) return "";
  return std::string(view.substr(first, view.find_last_not_of(kPunctuation) - first + 1));
}

}  // namespace

absl::StatusOr<TextEncoder> TextEncoder::Create(absl::Span<const std::string> names,
                                                const std::optional<TokenizerOptions>& tokenizer) {
  TextEncoder encoder;
  for (size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty()) encoder.ids_.emplace(names[i], static_cast<uint32_t>(i));
  }
  if (encoder.ids_.empty()) {
    return absl::FailedPreconditionError(
        "the model's features have no names (there was no features.txt beside the training data), "
        "so a text says nothing to it; pass --data FILE instead of --text");
  }
  encoder.is_tokenizer_known_ = tokenizer.has_value();
  encoder.tokenizer_ =
      Tokenizer(tokenizer.value_or(TokenizerOptions{.kind = TokenizerKind::kDescriptions}));
  return encoder;
}

bool TextEncoder::KnowsAnyOf(const Words& words) const {
  return std::any_of(words.begin(), words.end(),
                     [this](const std::string& word) { return ids_.contains(word); });
}

TextEncoder::Words TextEncoder::Read(const std::string& part) const {
  if (ids_.contains(part)) return {part};
  Words cut;
  tokenizer_.Cut(part, &cut);
  if (is_tokenizer_known_ && KnowsAnyOf(cut)) return cut;
  const std::string bare = WithoutPunctuation(part);
  for (const std::string& word : {FoldCase(part), bare, FoldCase(bare)}) {
    if (ids_.contains(word)) return {word};
  }
  if (KnowsAnyOf(cut)) return cut;
  for (const bool lower_case : {false, true}) {
    Words words;
    Tokenizer({.lower_case = lower_case}).Cut(part, &words);
    if (KnowsAnyOf(words)) return words;
  }
  return cut.empty() ? Words{part} : cut;
}

std::optional<RowId> TextEncoder::Find(absl::string_view name) const {
  const auto found = ids_.find(name);
  if (found == ids_.end()) return std::nullopt;
  return RowId(found->second);
}

absl::StatusOr<TextQuery> TextEncoder::Encode(absl::string_view text) const {
  TextQuery query = Recognize(text);
  if (!query.batch.features.empty()) return query;
  return absl::InvalidArgumentError(
      absl::StrCat("the model knows none of the words of \"", text, "\""));
}

TextQuery TextEncoder::Recognize(absl::string_view text) const {
  Words words;
  if (tokenizer_.options().kind == TokenizerKind::kCharacters) {
    tokenizer_.Cut(text, &words);
  } else {
    for (const std::string& part : std::vector<std::string>(
             absl::StrSplit(text, absl::ByAnyChar(" \t\r\n"), absl::SkipEmpty()))) {
      for (std::string& word : Read(part)) words.push_back(std::move(word));
    }
  }
  TextQuery query;
  std::map<uint32_t, float> counts;
  for (std::string& word : words) {
    const auto it = ids_.find(word);
    if (it != ids_.end()) {
      counts[it->second] += 1;
    } else if (std::find(query.unknown.begin(), query.unknown.end(), word) == query.unknown.end()) {
      query.unknown.push_back(std::move(word));
    }
  }
  for (const auto& [feature, count] : counts) {
    query.batch.features.emplace_back(feature);
    query.batch.values.push_back(count);
  }
  query.batch.FinishSample();
  return query;
}

}  // namespace dslide
