// A text as the features that a model knows by name.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/engine/data/sparse_batch.h"
#include "core/engine/data/text/tokenizer.h"

namespace dslide {

struct TextQuery {
  SparseBatch batch;                 // one sample: how often each known word occurs
  std::vector<std::string> unknown;  // words without a feature, each once
};

// A part of the text between white space that is the name of a feature byte for byte stands for it;
// others are cut by the tokenizer. What it does not know either is tried in lower case, without
// punctuation at its ends, and as Unicode words. Where nobody says by what tokenizer the names were
// made, these come first, but for the last, and then DescriptionWords().
// Runs of characters cross white space: with TokenizerKind::kCharacters the tokenizer decides
// alone.
//
// Thread safety: immutable.
class TextEncoder {
 public:
  // names: [features], "" where unknown; outlives the encoder. tokenizer: nothing, or valid.
  // Errors: FailedPrecondition when no feature has a name.
  static absl::StatusOr<TextEncoder> Create(absl::Span<const std::string> names,
                                            const std::optional<TokenizerOptions>& tokenizer);

  // Errors: InvalidArgument when no word of the text is known.
  absl::StatusOr<TextQuery> Encode(absl::string_view text) const;
  // The same, with an empty sample when no word is known.
  TextQuery Recognize(absl::string_view text) const;
  // The feature of that name, byte for byte.
  std::optional<RowId> Find(absl::string_view name) const;

 private:
  using Words = std::vector<std::string>;

  // The first reading of a part in which a word is known, else the tokenizer's.
  Words Read(const std::string& part) const;
  bool KnowsAnyOf(const Words& words) const;

  Tokenizer tokenizer_;
  bool is_tokenizer_known_ = false;
  absl::flat_hash_map<absl::string_view, uint32_t> ids_;
};

}  // namespace dslide
