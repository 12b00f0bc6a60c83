#include "client/cli/console/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/console/logged_progress.h"
#include "core/base/clock.h"
#include "core/system/files/standard_streams.h"
#include "core/system/log.h"

namespace dslide::cli {
namespace {

bool IsNumber(const std::string& cell) {
  return !cell.empty() && (absl::ascii_isdigit(static_cast<unsigned char>(cell[0])) ||
                           (cell[0] == '-' && cell.size() > 1));
}

}  // namespace

bool IsTerminal(int fd) {
  const char* term = std::getenv("TERM");
  return isatty(fd) == 1 && (term == nullptr || std::strcmp(term, "dumb") != 0);
}

bool MayUseColor(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  return IsTerminal(fd) && (no_color == nullptr || *no_color == '\0');
}

int TerminalWidth(int fd) {
  winsize size = {};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

void PrintLine(absl::string_view text) { WriteResult(absl::StrCat(text, "\n")); }

void PrintNote(absl::string_view text) {
  if (CurrentLogFormat() == LogFormat::kJson) return WriteLog(LogLevel::kInfo, text);
  const std::string line = absl::StrCat(text, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

std::unique_ptr<ProgressSink> MakeProgress(bool quiet) {
  if (quiet) return QuietProgress();
  if (CurrentLogFormat() == LogFormat::kJson) return LoggedProgress(SteadyClock());
  TerminalProgressOptions options;
  options.live = IsTerminal(STDERR_FILENO);
  options.color = MayUseColor(STDERR_FILENO);
  options.width = TerminalWidth(STDERR_FILENO);
  return StderrProgress(options, SteadyClock());
}

std::string FormatTable(const std::vector<std::string>& header,
                        const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (size_t c = 0; c < header.size(); ++c) {
    size_t width = header[c].size();
    for (const auto& row : rows) width = std::max(width, row[c].size());
    widths.push_back(width);
  }
  std::string text;
  const auto add = [&](const std::vector<std::string>& row) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - row[c].size(), ' ');
      absl::StrAppend(&line, c == 0 ? "" : "  ", IsNumber(row[c]) ? padding : "", row[c],
                      IsNumber(row[c]) ? "" : padding);
    }
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&text, text.empty() ? "" : "\n", line);
  };
  add(header);
  for (const auto& row : rows) add(row);
  return text;
}

std::string WithThousands(int64_t number) {
  const bool negative = number < 0;
  std::string digits = absl::StrCat(negative ? -number : number);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), 1, ',');
  }
  return negative ? absl::StrCat("-", digits) : digits;
}

std::string ReadableBytes(double bytes) {
  const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  while (bytes >= 1000 && unit < 5) {
    bytes /= 1000;
    ++unit;
  }
  return unit == 0      ? absl::StrFormat("%.0f B", bytes)
         : bytes >= 100 ? absl::StrFormat("%.0f %s", bytes, units[unit])
                        : absl::StrFormat("%.1f %s", bytes, units[unit]);
}

}  // namespace dslide::cli
