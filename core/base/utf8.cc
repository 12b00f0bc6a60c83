#include "core/base/utf8.h"

#include "absl/strings/strip.h"

namespace dslide {
namespace {

// Bytes of the UTF-8 character that starts with `lead`; 0 when none does.
size_t CharacterLength(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  if (lead >= 0xf0 && lead <= 0xf4) return 4;
  return 0;
}

bool IsCharacter(absl::string_view text, size_t length) {
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return false;
  }
  const auto second = length > 1 ? static_cast<unsigned char>(text[1]) : 0x80;
  switch (static_cast<unsigned char>(text[0])) {  // overlong forms, surrogates, beyond U+10FFFF
    case 0xe0:
      return second >= 0xa0;
    case 0xed:
      return second <= 0x9f;
    case 0xf0:
      return second >= 0x90;
    case 0xf4:
      return second <= 0x8f;
    default:
      return true;
  }
}

}  // namespace

size_t FirstCharacterBytes(absl::string_view text) {
  if (text.empty()) return 0;
  const size_t length = CharacterLength(static_cast<unsigned char>(text[0]));
  return length > 0 && length <= text.size() && IsCharacter(text, length) ? length : 0;
}

absl::string_view WithoutByteOrderMark(absl::string_view text) {
  return absl::StripPrefix(text, "\xef\xbb\xbf");
}

}  // namespace dslide
