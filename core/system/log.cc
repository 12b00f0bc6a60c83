#include "core/system/log.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace dslide {
namespace {

std::atomic<LogLevel> min_level{LogLevel::kInfo};

const char* LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "DEBUG";
    case LogLevel::kInfo:
      return "INFO";
    case LogLevel::kWarning:
      return "WARNING";
    case LogLevel::kError:
      return "ERROR";
  }
  return "UNKNOWN";
}

// A value stands without quotes only when a reader cannot mistake where it ends.
bool IsPlain(absl::string_view value) {
  if (value.empty()) return false;
  for (const char c : value) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '.' || c == '-' || c == '+' || c == '_' || c == ':' || c == '/' ||
                       c == ',';
    if (!plain) return false;
  }
  return true;
}

void WriteAll(absl::string_view line) {
  while (!line.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // a closed stderr is not worth dying for
    line.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

std::string EscapeForLog(absl::string_view text, size_t max_bytes) {
  std::string escaped = absl::CHexEscape(text.substr(0, max_bytes));
  absl::StrReplaceAll({{"\\\\", "\\\\"}, {"\\'", "'"}}, &escaped);  // a lone ' misleads nobody
  if (text.size() > max_bytes) escaped += "...";
  return escaped;
}

std::string FormatLogLine(LogLevel level, absl::string_view message,
                          std::initializer_list<LogField> fields) {
  std::string line = absl::StrCat(LevelName(level), " ", EscapeForLog(message));
  for (const LogField& field : fields) {
    if (IsPlain(field.value) && field.value.size() <= kMaxLogValueBytes) {
      absl::StrAppend(&line, " ", field.key, "=", field.value);
    } else {
      absl::StrAppend(&line, " ", field.key, "=\"", EscapeForLog(field.value), "\"");
    }
  }
  return line;
}

void Log(LogLevel level, absl::string_view message, std::initializer_list<LogField> fields) {
  if (level < min_level.load(std::memory_order_relaxed)) return;
  WriteAll(absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::Now(), absl::UTCTimeZone()),
                        " ", FormatLogLine(level, message, fields), "\n"));
}

void SetMinLogLevel(LogLevel level) { min_level.store(level, std::memory_order_relaxed); }

}  // namespace dslide
