#include "client/cli/console/repeat.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/console/interrupt.h"
#include "client/cli/console/terminal.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/system/files/standard_streams.h"

namespace dslide::cli {
namespace {

// How soon an interrupt is heard.
constexpr absl::Duration kRepeatPoll = absl::Milliseconds(50);
constexpr char kClearScreen[] = "\x1b[H\x1b[2J";

}  // namespace

absl::StatusOr<absl::Duration> ParseInterval(const std::string& flag, const std::string& text) {
  absl::Duration interval;
  if (absl::ParseDuration(text, &interval) && interval >= kShortestInterval &&
      interval <= absl::Hours(24)) {
    return interval;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " ", text, ": must be a time from 100ms to 24h, like 2s"));
}

absl::Status Repeat(absl::Duration interval, bool plain,
                    const std::function<absl::StatusOr<std::string>()>& frame) {
  const InterruptGuard guard;
  const bool redraw = !plain && IsTerminal(STDOUT_FILENO);
  while (!InterruptGuard::Interrupted()) {
    const absl::Duration start = SteadyClock().Now();
    ASSIGN_OR_RETURN(const std::string text, frame());
    PrintLine(redraw ? absl::StrCat(kClearScreen, text) : text);
    RETURN_IF_ERROR(ResultStatus());
    while (!InterruptGuard::Interrupted() && SteadyClock().Now() - start < interval) {
      absl::SleepFor(std::min(kRepeatPoll, interval));
    }
  }
  return absl::OkStatus();
}

}  // namespace dslide::cli
