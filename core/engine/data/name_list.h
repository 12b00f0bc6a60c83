// Files with one name a line, in id order: what features and labels are called.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dslide {

// The lines of a text one after the other, without their LF or CRLF. The view must outlive this.
class LineReader {
 public:
  explicit LineReader(absl::string_view text) : rest_(text) {}

  // False when there are no more.
  bool Next(absl::string_view* line);
  // Of the last line that Next() gave; counts from 1.
  int64_t line_number() const { return line_number_; }

 private:
  absl::string_view rest_;
  int64_t line_number_ = 0;
};

// The names of ids 0 .. count - 1.
//
//   path : the file. When empty, `default_name` (or .xz, .gz, .zst, .lz4, .bz2 of it) beside
//          `data_path` is used if it exists and has `count` lines; otherwise there are no names,
//          and a file that has another number of lines is named in `notes` (may be null).
//
// Errors: those of DataFile::Open(); InvalidArgument when the named file has not `count` lines.
absl::StatusOr<std::vector<std::string>> FindNames(const std::string& path,
                                                   const std::string& data_path,
                                                   absl::string_view default_name, int64_t count,
                                                   std::vector<std::string>* notes = nullptr);

}  // namespace dslide
