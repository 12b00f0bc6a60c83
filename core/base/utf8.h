// Where the characters of a text end, for texts that may be no UTF-8 at all.

#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace dslide {

// Bytes of the UTF-8 character with which `text` begins; 0 when it begins with none.
size_t FirstCharacterBytes(absl::string_view text);

// Without the mark that editors of some systems put in front of a text; part of no name or number.
absl::string_view WithoutByteOrderMark(absl::string_view text);

}  // namespace dslide
