// What the files of an import look like.

#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace dslide {

enum class ImportFormat {
  kCsv,        // RFC 4180, any one-byte delimiter
  kJsonLines,  // an object a line
  kSvmlight,   // label,label index:value index:value ... # comment
  kFastText,   // __label__a __label__b text
};

struct ImportSource {
  ImportFormat format = ImportFormat::kCsv;
  // Of CSV and JSON: by name; of CSV also by number, from 1.
  std::vector<std::string> text_columns = {"text"};
  std::vector<std::string> label_columns = {"labels"};
  // A file without a column for labels has rows without any.
  bool labels_optional = false;
  // Of CSV. One byte, or "tab".
  std::string delimiter = ",";
  bool has_header = true;
  bool has_quotes = true;  // else '"' is a character like others
  // What stands between the labels of one field; "": a field is one label.
  std::string label_separator;
  // Of fastText: words that begin with it are labels.
  std::string label_prefix = "__label__";

  // Errors: InvalidArgument naming the field, the value and what it may be.
  absl::Status Validate() const;
  // Requires a valid source.
  char delimiter_byte() const { return delimiter == "tab" ? '\t' : delimiter.front(); }
};

}  // namespace dslide
