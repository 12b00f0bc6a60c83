// "did you mean ...?"

#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace dslide {

// The known name with the fewest single-character edits from `name`; "" when even that one differs
// in more than a third of its characters (at least 2 are allowed). Ties: the earlier one.
std::string NearestName(absl::string_view name, const std::vector<std::string>& known);

}  // namespace dslide
