// What is to be done about files that cannot be read. Internal to this folder.

#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"

namespace dslide {

// Readers of files refuse as FailedPrecondition what another version has written
// (core/system/format_version.h): there is nothing to put back or to give up then.
inline std::string RemedyFor(const absl::Status& status, std::string if_damaged) {
  return absl::IsFailedPrecondition(status) ? "nothing is damaged: use that version"
                                            : std::move(if_damaged);
}

}  // namespace dslide
