#include "bench/common/foreign_load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"

namespace dslide::bench {
namespace {

// Columns of the "cpu" line after its name (proc(5)).
constexpr size_t kIdle = 3;
constexpr size_t kIoWait = 4;
constexpr size_t kSteal = 7;

absl::StatusOr<absl::Duration> BusyTime() {
  std::ifstream file("/proc/stat");
  std::ostringstream text;
  text << file.rdbuf();
  ASSIGN_OR_RETURN(const int64_t ticks, BusyTicks(text.str()));
  return absl::Seconds(static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK)));
}

}  // namespace

absl::StatusOr<int64_t> BusyTicks(absl::string_view proc_stat) {
  const absl::string_view line = proc_stat.substr(0, proc_stat.find('\n'));
  const std::vector<absl::string_view> words =
      absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (words.size() < kSteal + 2 || words[0] != "cpu") {
    return absl::InvalidArgumentError(absl::StrCat("/proc/stat begins with \"", line,
                                                   "\", expected \"cpu\" and at least 8 numbers"));
  }
  int64_t busy = 0;
  for (size_t column = 0; column <= kSteal; ++column) {
    int64_t ticks = 0;
    if (!absl::SimpleAtoi(words[column + 1], &ticks) || ticks < 0) {
      return absl::InvalidArgumentError(absl::StrCat("/proc/stat: \"", words[column + 1],
                                                     "\" in column ", column + 1,
                                                     " is no number of ticks"));
    }
    if (column != kIdle && column != kIoWait) busy += ticks;
  }
  return busy;
}

double ForeignProcessors(absl::Duration busy, absl::Duration own, absl::Duration wall) {
  return std::max(0.0, absl::FDivDuration(busy - own, wall));
}

double ProcessorSeconds(pid_t pid) {
  clockid_t clock;
  timespec used = {};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0.0;
  return absl::ToDoubleSeconds(absl::DurationFromTimespec(used));
}

ForeignLoad::ForeignLoad(std::vector<pid_t> own)
    : processes_(std::move(own)), wall_(SteadyClock().Now()), own_(OwnTime()), busy_(BusyTime()) {}

absl::Duration ForeignLoad::OwnTime() const {
  absl::Duration total;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    total += absl::DurationFromTimeval(usage.ru_utime) + absl::DurationFromTimeval(usage.ru_stime);
  }
  for (const pid_t pid : processes_) total += absl::Seconds(ProcessorSeconds(pid));
  return total;
}

double ForeignLoad::Processors() const {
  const absl::StatusOr<absl::Duration> busy = BusyTime();
  const absl::Duration wall = SteadyClock().Now() - wall_;
  if (!busy.ok() || !busy_.ok() || wall <= absl::ZeroDuration()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return ForeignProcessors(*busy - *busy_, OwnTime() - own_, wall);
}

}  // namespace dslide::bench
