// How a text becomes words: the same for the data that a model learns from and for what it is
// asked.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dslide {

enum class TokenizerKind {
  kWords,         // runs of letters, marks, digits and '_'; each Han or Hiragana character alone
  kWhitespace,    // what stands between white space
  kCharacters,    // every run of min_characters .. max_characters characters
  kDescriptions,  // of packages: DescriptionWords()
};

struct TokenizerOptions {
  TokenizerKind kind = TokenizerKind::kWords;
  // FoldCase() before anything else. kDescriptions has its own lower case and wants true.
  bool lower_case = true;
  // Of kCharacters. Range [1, 16], the first not above the second.
  int64_t min_characters = 3;
  int64_t max_characters = 5;

  // Errors: InvalidArgument naming the field, the value and the range.
  absl::Status Validate() const;
  bool operator==(const TokenizerOptions& other) const = default;
};

// "words", "whitespace", "characters", "descriptions".
absl::string_view TokenizerKindName(TokenizerKind kind);
std::vector<std::string> TokenizerKindNames();
// Errors: InvalidArgument naming the word and those that there are.
absl::StatusOr<TokenizerKind> TokenizerKindFromName(absl::string_view name);

// Tokens hold no control characters and, but for kCharacters, no white space. Malformed UTF-8
// counts as U+FFFD, which is no character of a word.
//
// Thread safety: immutable.
class Tokenizer {
 public:
  // Requires options.Validate().ok().
  explicit Tokenizer(TokenizerOptions options = {}) : options_(options) {}

  const TokenizerOptions& options() const { return options_; }

  // Appends the tokens of `text` in text order, repeats kept.
  void Cut(absl::string_view text, std::vector<std::string>* tokens) const;

 private:
  TokenizerOptions options_;
};

}  // namespace dslide
