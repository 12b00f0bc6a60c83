#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/data/import/csv_parser.h"
#include "core/engine/data/import/record_reader.h"

namespace dslide {
namespace {

constexpr size_t kShownColumns = 20;

std::string ColumnNames(const std::vector<CsvField>& header) {
  std::string names;
  for (size_t i = 0; i < header.size() && i < kShownColumns; ++i) {
    absl::StrAppend(&names, i == 0 ? "" : ", ", QuoteFound(header[i].value));
  }
  return header.size() > kShownColumns ? names + ", ..." : names;
}

// The place of a column in `header`; the first row where there is none.
absl::StatusOr<size_t> FindColumn(const std::string& path, const ImportSource& source,
                                  const std::vector<CsvField>& header, const std::string& column) {
  const auto is_named = [&](const CsvField& field) { return field.value == column; };
  if (source.has_header) {
    const auto found = std::find_if(header.begin(), header.end(), is_named);
    if (found != header.end()) {
      if (std::find_if(found + 1, header.end(), is_named) == header.end()) {
        return static_cast<size_t>(found - header.begin());
      }
      return absl::InvalidArgumentError(absl::StrCat(path, " has several columns \"", column,
                                                     "\": name the column by its number, from 1"));
    }
  }
  int64_t number = 0;
  if (absl::SimpleAtoi(column, &number) && number >= 1 &&
      number <= static_cast<int64_t>(header.size())) {
    return static_cast<size_t>(number - 1);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path, " has no column \"", column, "\"; its ", header.size(), " columns are ",
      source.has_header ? ColumnNames(header) : "known by their numbers, from 1",
      ": name them with --text-column and --label-column, what separates them with --delimiter"));
}

class CsvRecords final : public RecordReader {
 public:
  CsvRecords(const DataFile& file, absl::string_view text, const ImportSource& source,
             LabelFields* labels)
      : path_(file.path()),
        parser_(path_, text,
                {.delimiter = source.delimiter_byte(), .has_quotes = source.has_quotes}),
        labels_(labels) {}

  // Reads the first row.
  absl::Status Open(const ImportSource& source) {
    ASSIGN_OR_RETURN(const bool has_row, parser_.Next(&row_));
    if (!has_row) {
      return absl::InvalidArgumentError(absl::StrCat(path_, " is empty: it has no row"));
    }
    RETURN_IF_ERROR(CheckCharacters(path_, parser_.row_line(), parser_.row_text()));
    width_ = row_.size();
    for (const std::string& column : source.text_columns) {
      ASSIGN_OR_RETURN(const size_t place, FindColumn(path_, source, row_, column));
      text_places_.push_back(place);
    }
    for (const std::string& column : source.label_columns) {
      const absl::StatusOr<size_t> place = FindColumn(path_, source, row_, column);
      if (!place.ok() && source.labels_optional) continue;
      RETURN_IF_ERROR(place.status());
      label_places_.push_back(*place);
    }
    is_first_pending_ = !source.has_header;
    return absl::OkStatus();
  }

  absl::StatusOr<bool> Next(ImportRecord* record) override {
    *record = {};
    if (!std::exchange(is_first_pending_, false)) {
      ASSIGN_OR_RETURN(const bool has_row, parser_.Next(&row_));
      if (!has_row) return false;
      RETURN_IF_ERROR(CheckCharacters(path_, parser_.row_line(), parser_.row_text()));
    }
    if (row_.size() != width_) {
      const CsvField& place = row_[std::min(row_.size() - 1, width_)];
      return ParseError(path_, place.line,
                        {place.column, absl::StrCat("a row of ", row_.size(), " fields"),
                         absl::StrCat(width_,
                                      " as the first row has; a field that holds the delimiter or "
                                      "a line end must be quoted")});
    }
    for (const size_t place : text_places_) record->texts.push_back(row_[place].value);
    for (const size_t place : label_places_) labels_->Split(row_[place].value, &record->labels);
    return true;
  }

  int64_t bytes_read() const override { return parser_.bytes_read(); }

 private:
  const std::string path_;
  CsvParser parser_;
  LabelFields* labels_;
  std::vector<CsvField> row_;
  size_t width_ = 0;
  std::vector<size_t> text_places_;
  std::vector<size_t> label_places_;
  bool is_first_pending_ = false;  // row_ is a row of data that Next() has not given
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordReader>> OpenCsvRecords(const DataFile& file,
                                                             const ImportSource& source,
                                                             LabelFields* labels) {
  ASSIGN_OR_RETURN(const absl::string_view text, TextOf(file));
  auto records = std::make_unique<CsvRecords>(file, text, source, labels);
  RETURN_IF_ERROR(records->Open(source));
  return std::unique_ptr<RecordReader>(std::move(records));
}

}  // namespace dslide
