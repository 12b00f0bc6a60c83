// Texts in pages.

#pragma once

#include <string>

#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace dslide {

// For elements and attributes.
inline std::string EscapeHtml(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

}  // namespace dslide
