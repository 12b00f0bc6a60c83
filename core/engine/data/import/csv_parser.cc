#include "core/engine/data/import/csv_parser.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace dslide {

bool CsvParser::TakeLineEnd() {
  if (at_ == text_.size()) return true;
  const absl::string_view rest = text_.substr(at_, 2);
  const size_t bytes = rest[0] == '\n' ? 1 : rest == "\r\n" ? 2 : 0;
  if (bytes == 0) return false;
  at_ += bytes;
  ++line_;
  line_start_ = at_;
  return true;
}

absl::Status CsvParser::ErrorAt(size_t at, const std::string& expected) const {
  const std::string found =
      at == text_.size() ? "the end of the file" : QuoteFound(text_.substr(at, 1));
  return ParseError(path_, line_, {static_cast<int64_t>(at - line_start_) + 1, found, expected});
}

absl::Status CsvParser::ReadQuoted(std::string* value) {
  const int64_t first_line = line_;
  const auto first_column = static_cast<int64_t>(at_ - line_start_) + 1;
  ++at_;
  while (true) {
    const size_t quote = text_.find('"', at_);
    if (quote == absl::string_view::npos) {
      return ParseError(path_, first_line,
                        {first_column, "a \" that is never closed",
                         "a closing \"; inside quoted fields \" is doubled; where it is a "
                         "character like others, pass --no-quotes"});
    }
    for (size_t at = text_.find('\n', at_); at < quote; at = text_.find('\n', at + 1)) {
      ++line_;
      line_start_ = at + 1;
    }
    value->append(text_.data() + at_, quote - at_);
    at_ = quote + 1;
    if (at_ == text_.size() || text_[at_] != '"') return absl::OkStatus();
    *value += '"';
    ++at_;
  }
}

absl::Status CsvParser::ReadPlain(std::string* value) {
  const char stops[] = {options_.delimiter, '\n', '\r', '"'};
  const absl::string_view all(stops, options_.has_quotes ? 4 : 3);
  const size_t end = std::min(text_.find_first_of(all, at_), text_.size());
  value->assign(text_.data() + at_, end - at_);
  at_ = end;
  if (at_ < text_.size() && text_[at_] == '"' && options_.has_quotes) {
    return ErrorAt(at_,
                   "no \" in a field that does not begin with one; quote the field and double "
                   "its quotes, or pass --no-quotes where \" is a character like others");
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> CsvParser::Next(std::vector<CsvField>* row) {
  row->clear();
  do {
    row_line_ = line_;
    row_start_ = at_;
    if (at_ == text_.size()) return false;
  } while (TakeLineEnd());
  while (true) {
    CsvField& field = row->emplace_back();
    field.line = line_;
    field.column = static_cast<int64_t>(at_ - line_start_) + 1;
    const bool is_quoted = options_.has_quotes && at_ < text_.size() && text_[at_] == '"';
    RETURN_IF_ERROR(is_quoted ? ReadQuoted(&field.value) : ReadPlain(&field.value));
    if (TakeLineEnd()) return true;
    if (text_[at_] != options_.delimiter) {
      return ErrorAt(at_, is_quoted
                              ? absl::StrCat("the delimiter \"", std::string(1, options_.delimiter),
                                             "\" or a line end behind the closing \"")
                              : "a line feed behind the carriage return");
    }
    ++at_;
  }
}

}  // namespace dslide
