// A stable word for programs, attached to a status: "FOREIGN_ROW", "STALE_SEQUENCE", ...

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace dslide {

// A status with a reason word. docs/operate/errors.md lists the words.
absl::Status StatusWithReason(absl::StatusCode code, absl::string_view reason,
                              absl::string_view message);

// The reason word of a status; empty when it has none.
std::string ReasonOf(const absl::Status& status);

}  // namespace dslide
