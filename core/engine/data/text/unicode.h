// What cutting a text needs to know of characters. Texts are UTF-8.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace dslide {

struct Character {
  int32_t code = 0;  // -1: malformed
  size_t bytes = 0;  // 1 of a malformed one
};

// Requires that the text is not empty.
Character FirstCharacter(absl::string_view text);

// Where the first malformed byte is; npos: nowhere.
size_t FindMalformed(absl::string_view text);
// Each malformed byte becomes U+FFFD.
std::string ReplaceMalformed(absl::string_view text);

// Full case folding of Unicode, then its composed form (NFC): "Straße" and "STRASSE" become equal,
// "é" in one character and in two as well. Malformed text stays as it is.
std::string FoldCase(absl::string_view text);

// White space and control characters.
bool IsSeparator(int32_t code);
// Letters, marks, digits and connectors such as '_'.
bool IsWordCharacter(int32_t code);
// Characters of scripts that are written without blanks and in which one says a word by itself: Han
// and Hiragana, as in Unicode's rules for the boundaries of words (UAX 29).
bool IsIdeograph(int32_t code);

}  // namespace dslide
