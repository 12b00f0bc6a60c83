// The words of an enumeration, as people and clients write them.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace dslide {

// In the order in which errors offer them.
template <typename Enum>
using EnumWords = std::vector<std::pair<const char*, Enum>>;

// What an error expects: `one of "sgd", "adam"`.
template <typename Enum>
std::string OneOf(const EnumWords<Enum>& words) {
  std::string expected = "one of ";
  absl::string_view separator;
  for (const auto& [word, meaning] : words) {
    absl::StrAppend(&expected, separator, "\"", word, "\"");
    separator = ", ";
  }
  return expected;
}

}  // namespace dslide
