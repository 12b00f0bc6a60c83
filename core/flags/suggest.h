// "Did you mean": the nearest of some known words.

#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace dslide {

// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`.
int EditDistance(absl::string_view a, absl::string_view b);

// The known word nearest to `word`, or "" when none is near: at most a third of its letters differ
// (but at least one may), or `word` begins a known one.
std::string Suggest(absl::string_view word, const std::vector<std::string>& known);

}  // namespace dslide
