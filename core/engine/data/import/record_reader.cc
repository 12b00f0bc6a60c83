#include "core/engine/data/import/record_reader.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/engine/data/parse_error.h"
#include "core/engine/data/text/unicode.h"

namespace dslide {

absl::StatusOr<absl::string_view> TextOf(const DataFile& file) {
  absl::string_view text = file.bytes();
  if (absl::StartsWith(text, "\xff\xfe") || absl::StartsWith(text, "\xfe\xff")) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), " is in UTF-16: convert it: iconv -f UTF-16 -t UTF-8 ",
                     file.path(), " > FILE"));
  }
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");
  return text;
}

absl::Status CheckCharacters(const std::string& path, int64_t line, absl::string_view row) {
  const size_t at = std::min(FindMalformed(row), row.find('\0'));
  if (at == absl::string_view::npos) return absl::OkStatus();
  const absl::string_view before = row.substr(0, at);
  line += std::count(before.begin(), before.end(), '\n');
  const size_t start = before.rfind('\n');
  const auto column =
      static_cast<int64_t>(start == absl::string_view::npos ? at : at - start - 1) + 1;
  return ParseError(path, line,
                    {column, QuoteFound(row.substr(at, 1)),
                     absl::StrCat("text in UTF-8; if it is in another encoding, convert it: iconv "
                                  "-f WINDOWS-1252 -t UTF-8 ",
                                  path, " > FILE")});
}

absl::StatusOr<std::unique_ptr<RecordReader>> OpenRecords(const DataFile& file,
                                                          const ImportSource& source,
                                                          LabelFields* labels) {
  switch (source.format) {
    case ImportFormat::kCsv:
      return OpenCsvRecords(file, source, labels);
    case ImportFormat::kJsonLines:
      return OpenJsonRecords(file, source, labels);
    case ImportFormat::kSvmlight:
      return OpenSvmlightRecords(file);
    case ImportFormat::kFastText:
      return OpenFastTextRecords(file, source);
  }
  return absl::InternalError("unknown format");
}

}  // namespace dslide
