#include "core/engine/data/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"

namespace dslide {
namespace {

bool IsAllAscii(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isascii(c); });
}

bool IsBetween(int32_t code, int32_t first, int32_t last) { return code >= first && code <= last; }

}  // namespace

Character FirstCharacter(absl::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x80) return {first, 1};
  utf8proc_int32_t code = -1;
  const utf8proc_ssize_t bytes =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                       static_cast<utf8proc_ssize_t>(text.size()), &code);
  if (bytes < 1) return {-1, 1};
  return {code, static_cast<size_t>(bytes)};
}

size_t FindMalformed(absl::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Character next = FirstCharacter(text.substr(at));
    if (next.code < 0) return at;
    at += next.bytes;
  }
  return absl::string_view::npos;
}

std::string ReplaceMalformed(absl::string_view text) {
  std::string well_formed;
  while (!text.empty()) {
    const size_t good = std::min(FindMalformed(text), text.size());
    well_formed.append(text.data(), good);
    text.remove_prefix(good);
    if (text.empty()) break;
    well_formed += "\uFFFD";
    text.remove_prefix(1);
  }
  return well_formed;
}

std::string FoldCase(absl::string_view text) {
  if (IsAllAscii(text)) return absl::AsciiStrToLower(text);
  utf8proc_uint8_t* folded = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
      static_cast<utf8proc_ssize_t>(text.size()), &folded,
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD));
  if (size < 0) return std::string(text);
  std::string result(reinterpret_cast<const char*>(folded), static_cast<size_t>(size));
  std::free(folded);  // NOLINT(cppcoreguidelines-no-malloc): as utf8proc wants it
  return result;
}

bool IsSeparator(int32_t code) {
  if (code < 0x80) return code <= ' ' || code == 0x7f;
  const utf8proc_category_t category = utf8proc_category(code);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP || category == UTF8PROC_CATEGORY_CC;
}

bool IsWordCharacter(int32_t code) {
  if (code < 0x80) return code == '_' || absl::ascii_isalnum(static_cast<unsigned char>(code));
  // The categories are numbered letters (Lu to Lo), marks, numbers, then Pc.
  const utf8proc_category_t category = utf8proc_category(code);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_PC;
}

bool IsIdeograph(int32_t code) {
  return code >= 0x3005 && (IsBetween(code, 0x3005, 0x3007) || IsBetween(code, 0x3041, 0x309f) ||
                            IsBetween(code, 0x3400, 0x4dbf) || IsBetween(code, 0x4e00, 0x9fff) ||
                            IsBetween(code, 0xf900, 0xfaff) || IsBetween(code, 0x20000, 0x3ffff));
}

}  // namespace dslide
