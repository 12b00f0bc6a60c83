// Comma-separated values (RFC 4180), strictly.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/engine/data/parse_error.h"

namespace dslide {

struct CsvOptions {
  char delimiter = ',';
  bool has_quotes = true;
};

struct CsvField {
  std::string value;
  int64_t line = 0;  // where it begins, in lines and bytes from 1
  int64_t column = 0;
};

// Rows of a text, one after the other. Lines end in LF or CRLF, the last one perhaps in neither.
// With quotes, a field that begins with '"' ends at the next single one; '""' inside it stands for
// one, and it may hold delimiters and line ends. Empty lines are no rows.
//
// Not thread-safe.
class CsvParser {
 public:
  // `path` names the text in messages; `text` outlives the parser.
  CsvParser(std::string path, absl::string_view text, CsvOptions options)
      : path_(std::move(path)), text_(text), options_(options) {}

  // Replaces *row by the next one; false at the end.
  // Errors: InvalidArgument with the place: a '"' inside a field without quotes or behind one with
  // them, one that is never closed, a carriage return without line feed.
  absl::StatusOr<bool> Next(std::vector<CsvField>* row);

  // Of the last row.
  int64_t row_line() const { return row_line_; }
  absl::string_view row_text() const { return text_.substr(row_start_, at_ - row_start_); }
  int64_t bytes_read() const { return static_cast<int64_t>(at_); }

 private:
  // True when a line end or the text's end is at at_, which is then behind it.
  bool TakeLineEnd();
  absl::Status ReadQuoted(std::string* value);
  absl::Status ReadPlain(std::string* value);
  absl::Status ErrorAt(size_t at, const std::string& expected) const;

  std::string path_;
  absl::string_view text_;
  CsvOptions options_;
  size_t at_ = 0;
  int64_t line_ = 1;
  size_t line_start_ = 0;
  int64_t row_line_ = 1;
  size_t row_start_ = 0;
};

}  // namespace dslide
