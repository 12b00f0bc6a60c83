// Paths and texts inside commands that people paste into a shell.

#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace dslide::cli {

// `text` as one word of a POSIX shell: as it is where that is one word, else in single quotes.
std::string ShellWord(absl::string_view text);

}  // namespace dslide::cli
