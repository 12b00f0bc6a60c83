#include "core/system/log.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "core/base/utf8.h"

namespace dslide {
namespace {

std::atomic<LogLevel> min_level{LogLevel::kInfo};
std::atomic<LogFormat> log_format{LogFormat::kText};

const char* LevelWord(LogLevel level) { return kLogLevelWords[static_cast<size_t>(level)]; }

// The place of `word`. Errors: InvalidArgument.
absl::StatusOr<size_t> PlaceOf(absl::string_view what, absl::string_view word,
                               absl::Span<const char* const> words) {
  const auto found = std::find(words.begin(), words.end(), word);
  if (found != words.end()) return static_cast<size_t>(found - words.begin());
  return absl::InvalidArgumentError(absl::StrCat("the log's ", what, " is \"",
                                                 EscapeForLog(word, 80), "\", not one of ",
                                                 absl::StrJoin(words, ", ")));
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

// In quotes. A peer's text need not be UTF-8, and a line of JSON has to be.
std::string JsonString(absl::string_view text) {
  const bool cut = text.size() > kMaxLogValueBytes;
  text = text.substr(0, kMaxLogValueBytes);
  std::string quoted = "\"";
  while (!text.empty()) {
    const size_t length = FirstCharacterBytes(text);
    const auto lead = static_cast<unsigned char>(text[0]);
    if (lead == '"' || lead == '\\') {
      absl::StrAppend(&quoted, "\\", text.substr(0, 1));
    } else if (length == 0 || absl::ascii_iscntrl(lead)) {
      absl::StrAppendFormat(&quoted, "\\u%04x", length == 0 ? 0xfffd : lead);
    } else {
      absl::StrAppend(&quoted, text.substr(0, length));
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  absl::StrAppend(&quoted, cut ? "..." : "", "\"");
  return quoted;
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

bool LogEnabled(LogLevel level) { return level >= min_level.load(std::memory_order_relaxed); }

void SetMinLogLevel(LogLevel level) { min_level.store(level, std::memory_order_relaxed); }
void SetLogFormat(LogFormat format) { log_format.store(format, std::memory_order_relaxed); }
LogFormat CurrentLogFormat() { return log_format.load(std::memory_order_relaxed); }

absl::Status SetLog(absl::string_view level, absl::string_view format) {
  const absl::StatusOr<size_t> level_place = PlaceOf("level", level, kLogLevelWords);
  if (!level_place.ok()) return level_place.status();
  const absl::StatusOr<size_t> format_place = PlaceOf("format", format, kLogFormatWords);
  if (!format_place.ok()) return format_place.status();
  SetMinLogLevel(static_cast<LogLevel>(*level_place));
  SetLogFormat(static_cast<LogFormat>(*format_place));
  return absl::OkStatus();
}

std::string FormatLogLine(LogFormat format, absl::Time time, LogLevel level,
                          absl::string_view message, std::initializer_list<LogField> fields) {
  const std::string when = absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", time, absl::UTCTimeZone());
  if (format == LogFormat::kJson) {
    std::string line = absl::StrCat("{\"time\":\"", when, "\",\"level\":\"", LevelWord(level),
                                    "\",\"msg\":", JsonString(message));
    for (const LogField& field : fields) {
      absl::StrAppend(&line, ",\"", field.key, "\":", JsonString(field.value));
    }
    return line + "}";
  }
  std::string line =
      absl::StrCat(when, " ", absl::AsciiStrToUpper(LevelWord(level)), " ", EscapeForLog(message));
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
  if (LogEnabled(level)) WriteLog(level, message, fields);
}

void WriteLog(LogLevel level, absl::string_view message, std::initializer_list<LogField> fields) {
  WriteAll(FormatLogLine(CurrentLogFormat(), absl::Now(), level, message, fields) + "\n");
}

}  // namespace dslide
