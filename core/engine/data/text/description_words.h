// The words of descriptions of Debian packages.

#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace dslide {

// Marks a package's name in a text. The words of names are features of their own: "python3" in a
// name says what a package is, in a description what it is about.
inline constexpr absl::string_view kNameMark = "name:";

// Lower case, maximal runs of [a-z0-9+.-] that are also split at '-' and stripped of '.', '-' at
// either end; in text order, repeats kept. Bytes beyond ASCII separate words. A token that begins
// with "name:" is a package's name: its words keep that mark ("name:python3-tk" gives
// "name:python3", "name:tk").
std::vector<std::string> DescriptionWords(absl::string_view text);

}  // namespace dslide
