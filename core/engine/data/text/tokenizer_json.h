// tokenizer.json: beside the data that a tokenizer has cut, and in the model that learnt from it.

#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/engine/data/text/tokenizer.h"

namespace dslide {

inline constexpr char kTokenizerFile[] = "tokenizer.json";

// {"format": 1, "kind": "words", "lower_case": true}; of "characters" also min_characters and
// max_characters. Ends in a newline. TokenizerFromJson() inverts it.
std::string TokenizerToJson(const TokenizerOptions& options);
// `origin` names the source in errors. Errors: FailedPrecondition for another format;
// InvalidArgument naming origin and the field that is unknown, of the wrong type or out of range.
absl::StatusOr<TokenizerOptions> TokenizerFromJson(absl::string_view text,
                                                   absl::string_view origin);

// The tokenizer.json beside a data file; nothing when there is none. Errors: those of reading it.
absl::StatusOr<std::optional<TokenizerOptions>> FindTokenizer(const std::string& data_path);

}  // namespace dslide
