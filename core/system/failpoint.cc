#include "core/system/failpoint.h"

#include <unistd.h>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace dslide {
namespace {

struct Armed {
  std::string name;
  int64_t occurrence = 1;
};

// Writes without the log: it may be what the caller is in the middle of.
void Say(const std::string& line) {
  const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  static_cast<void>(written);  // nobody is left to tell
}

// Constant once made; never destroyed, as threads may get here until the end.
const Armed& TheArmed() {
  static const Armed* const armed = [] {
    auto* const made = new Armed();
    const char* const setting = std::getenv("DSLIDE_FAILPOINTS");
    const absl::string_view text = setting == nullptr ? "" : setting;
    const size_t colon = text.rfind(':');
    made->name = std::string(text.substr(0, colon));
    if (colon != absl::string_view::npos &&
        (!absl::SimpleAtoi(text.substr(colon + 1), &made->occurrence) || made->occurrence < 1)) {
      Say(absl::StrCat("DSLIDE_FAILPOINTS is \"", text,
                       "\", must be NAME or NAME:OCCURRENCE, from 1 on\n"));
      std::_Exit(2);
    }
    return made;
  }();
  return *armed;
}

std::atomic<int64_t> times_reached{0};

}  // namespace

std::atomic<bool> failpoint_armed{!TheArmed().name.empty()};

void ReachFailpoint(const char* marked_name) {
  absl::string_view name = marked_name;
  name.remove_prefix(name.find(':') + 1);
  if (name != TheArmed().name || ++times_reached != TheArmed().occurrence) return;
  Say(absl::StrCat("failpoint ", name, " reached ", TheArmed().occurrence, " times: dying\n"));
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

}  // namespace dslide
