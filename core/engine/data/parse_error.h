// How the readers of text files say where and why they stopped.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace dslide {

// What was wrong at one place of a line.
struct LineError {
  int64_t column = 0;  // in bytes, from 1
  std::string found;   // ready for print: quoted text, or words such as "the end of the line"
  std::string expected;
};

// `text` in quotes, without unprintable bytes and cut to a readable length.
std::string QuoteFound(absl::string_view text);

// InvalidArgument "path:line:column: found <found>, expected <expected>". Lines count from 1.
absl::Status ParseError(const std::string& path, int64_t line, const LineError& error);

}  // namespace dslide
