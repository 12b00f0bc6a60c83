// Commands that show the same thing again and again: status --watch, top.

#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace dslide::cli {

// The shortest interval that may be asked for.
inline constexpr absl::Duration kShortestInterval = absl::Milliseconds(100);

// Reads an interval as people write it ("2s", "500ms"). Errors: InvalidArgument naming the flag.
absl::StatusOr<absl::Duration> ParseInterval(const std::string& flag, const std::string& text);

// Prints what `frame` returns to stdout, every `interval`, until Ctrl-C or SIGTERM. On a terminal
// each frame takes the place of the one before, unless `plain`. The first frame comes at once.
// Errors: those of `frame` and of ResultStatus(), which end it.
absl::Status Repeat(absl::Duration interval, bool plain,
                    const std::function<absl::StatusOr<std::string>()>& frame);

}  // namespace dslide::cli
