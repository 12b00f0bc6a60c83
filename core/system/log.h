// One-line structured logs on stderr, for people or for programs:
//
//   2024-05-01T12:00:00.123456Z INFO shard registered shard=2 address="10.0.0.7:7010"
//   {"time":"2024-05-01T12:00:00.123456Z","level":"info","msg":"shard registered","shard":"2",…}
//
// Values that come from a peer may be passed as they are: control characters and quotes are escaped
// and a value is cut at kMaxLogValueBytes. A line is written by one write(2), so that lines of
// several threads and processes do not mix.

#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace dslide {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

// For SetMinLogLevel(): nothing is written.
inline constexpr auto kNoLog = static_cast<LogLevel>(static_cast<int>(LogLevel::kError) + 1);

// Their words in settings, in the order of the enumerations.
inline constexpr const char* kLogLevelWords[] = {"debug", "info", "warning", "error"};
inline constexpr const char* kLogFormatWords[] = {"text", "json"};

inline constexpr size_t kMaxLogValueBytes = 512;

// One key=value of a line. The value is converted at once; strings, numbers and statuses' text fit.
struct LogField {
  LogField(absl::string_view key, const absl::AlphaNum& value) : key(key), value(value.Piece()) {}

  absl::string_view key;
  std::string value;
};

// Formats a line without its end, as it is written. In JSON every value is a string, so that a
// field has one type in all lines. Exposed for tests.
std::string FormatLogLine(LogFormat format, absl::Time time, LogLevel level,
                          absl::string_view message, std::initializer_list<LogField> fields);

// Writes one line. Thread safety: safe from any thread, not from a signal handler.
void Log(LogLevel level, absl::string_view message, std::initializer_list<LogField> fields = {});

// The same, whatever the least level is.
void WriteLog(LogLevel level, absl::string_view message,
              std::initializer_list<LogField> fields = {});

inline void LogInfo(absl::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kInfo, message, fields);
}
inline void LogWarning(absl::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kWarning, message, fields);
}
inline void LogError(absl::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kError, message, fields);
}

// Whether lines of `level` are written, for callers that work to make one.
bool LogEnabled(LogLevel level);

// Lines below `level` are dropped. With the format the only process-wide settings: set by main()
// before threads start.
void SetMinLogLevel(LogLevel level);
void SetLogFormat(LogFormat format);
LogFormat CurrentLogFormat();

// Both by their words. Errors: InvalidArgument naming the words that there are; nothing is set.
absl::Status SetLog(absl::string_view level, absl::string_view format);

// Text for people: C-style escapes for control characters, cut with "..." at `max_bytes`.
std::string EscapeForLog(absl::string_view text, size_t max_bytes = kMaxLogValueBytes);

}  // namespace dslide
