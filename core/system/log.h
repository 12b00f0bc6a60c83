// One-line structured logs on stderr:
//
//   2024-05-01T12:00:00.123456Z INFO shard registered shard=2 address="10.0.0.7:7010"
//
// Values that come from a peer may be passed as they are: control characters and quotes are escaped
// and a value is cut at kMaxLogValueBytes. A line is written by one write(2), so that lines of
// several threads and processes do not mix.

#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace dslide {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

inline constexpr size_t kMaxLogValueBytes = 512;

// One key=value of a line. The value is converted at once; strings, numbers and statuses' text fit.
struct LogField {
  LogField(absl::string_view key, const absl::AlphaNum& value) : key(key), value(value.Piece()) {}

  absl::string_view key;
  std::string value;
};

// Formats a line without its time, as the sink gets it: "INFO message key=value". Exposed for
// tests.
std::string FormatLogLine(LogLevel level, absl::string_view message,
                          std::initializer_list<LogField> fields);

// Writes one line. Thread safety: safe from any thread, not from a signal handler.
void Log(LogLevel level, absl::string_view message, std::initializer_list<LogField> fields = {});

inline void LogInfo(absl::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kInfo, message, fields);
}
inline void LogWarning(absl::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kWarning, message, fields);
}
inline void LogError(absl::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kError, message, fields);
}

// Lines below `level` are dropped. The one process-wide setting: set by main() before threads
// start.
void SetMinLogLevel(LogLevel level);

// Text for people: C-style escapes for control characters, cut with "..." at `max_bytes`.
std::string EscapeForLog(absl::string_view text, size_t max_bytes = kMaxLogValueBytes);

}  // namespace dslide
