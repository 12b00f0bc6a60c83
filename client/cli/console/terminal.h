// What a command writes: data to stdout, everything for people's patience to stderr.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/trainer/progress.h"

namespace dslide::cli {

// Whether a stream is a terminal that may be drawn on: it is one, and TERM is not "dumb".
bool IsTerminal(int fd);
// IsTerminal, and NO_COLOR is not set (https://no-color.org).
bool MayUseColor(int fd);
int TerminalWidth(int fd);

// `text` and a newline to stdout, flushed. ResultStatus() (standard_streams.h) says whether results
// arrived; the command line looks at it in the end, loops look at it as they go.
void PrintLine(absl::string_view text);
// The same to stderr; a line of the log where --log-format is json.
void PrintNote(absl::string_view text);

// Progress for this process's stderr, as PrintNote() writes; none when `quiet`.
std::unique_ptr<ProgressSink> MakeProgress(bool quiet);

// Columns aligned by spaces, the header first. Numbers (cells that begin with a digit or '-') are
// aligned right.
std::string FormatTable(const std::vector<std::string>& header,
                        const std::vector<std::vector<std::string>>& rows);

// "1,234,567".
std::string WithThousands(int64_t number);
// "1.5 GB", "12 kB": powers of 1000, for reading only.
std::string ReadableBytes(double bytes);

}  // namespace dslide::cli
