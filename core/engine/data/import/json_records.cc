#include <nlohmann/json.hpp>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/data/import/line_records.h"
#include "core/engine/data/parse_error.h"

namespace dslide {
namespace {

using Json = nlohmann::ordered_json;

class JsonRecords final : public LineRecords {
 public:
  JsonRecords(const DataFile& file, absl::string_view text, const ImportSource& source,
              LabelFields* labels)
      : LineRecords(file, text), source_(source), labels_(labels) {}

 protected:
  absl::Status Read(absl::string_view line, ImportRecord* record) override {
    Json row;
    RETURN_IF_ERROR(Parse(line, &row));
    if (first_line_.empty()) first_line_ = line;
    const auto add_text = [&](const std::string& text, bool) { record->texts.push_back(text); };
    // An entry of an array is a label as it stands.
    const auto add_label = [&](const std::string& label, bool is_in_array) {
      (is_in_array ? &whole_ : labels_)->Split(label, &record->labels);
    };
    for (const std::string& column : source_.text_columns) {
      RETURN_IF_ERROR(ReadField(line, column, row, add_text));
    }
    for (const std::string& column : source_.label_columns) {
      RETURN_IF_ERROR(ReadField(line, column, row, add_label));
    }
    return absl::OkStatus();
  }

  // A row may lack a field, all of them may not: its name is wrong.
  absl::Status CheckEnd() const override {
    for (const std::vector<std::string>* columns :
         {&source_.text_columns, &source_.label_columns}) {
      for (const std::string& column : *columns) {
        if (seen_.contains(column)) continue;
        if (source_.labels_optional && columns == &source_.label_columns) continue;
        return absl::InvalidArgumentError(absl::StrCat(
            path(), " has no row with the field \"", column, "\"; the first row is ",
            QuoteFound(first_line_), ": name the fields with --text-column and --label-column"));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Parse(absl::string_view line, Json* row) const {
    try {
      *row = Json::parse(line.begin(), line.end());
    } catch (const Json::parse_error& error) {  // the library tells the place in no other way
      const size_t at = error.byte > 0 ? std::min(error.byte - 1, line.size()) : 0;
      return ErrorAt(line, line.substr(at),
                     at == line.size() ? "the end of the line" : QuoteFound(line.substr(at)),
                     "a JSON object a line, without NaN and comments");
    } catch (const Json::out_of_range&) {  // and this one without a place
      return ErrorAt(line, line, QuoteFound(line), "numbers within a double's range");
    }
    if (row->is_object()) return absl::OkStatus();
    return ErrorAt(line, line, QuoteFound(line),
                   absl::StrCat("a JSON object a line; of one array make lines: jq -c .[] ", path(),
                                " > FILE"));
  }

  // Gives each string or number of a field, or of the array that it is, to `take`.
  template <typename Take>
  absl::Status ReadField(absl::string_view line, const std::string& column, const Json& row,
                         const Take& take) {
    const auto found = row.find(column);
    if (found == row.end()) return absl::OkStatus();
    seen_.insert(column);
    const auto take_one = [&](const Json& one, bool is_in_array) {
      if (one.is_string()) {
        take(one.get<std::string>(), is_in_array);
      } else if (one.is_number() || one.is_boolean()) {
        take(one.dump(), is_in_array);
      } else if (!one.is_null()) {
        return ErrorAt(line, line, absl::StrCat("\"", column, "\": ", QuoteFound(one.dump())),
                       "a string, a number, null, or an array of strings and numbers");
      }
      return absl::OkStatus();
    };
    if (!found->is_array()) return take_one(*found, false);
    for (const Json& one : *found) RETURN_IF_ERROR(take_one(one, true));
    return absl::OkStatus();
  }

  const ImportSource source_;
  LabelFields* labels_;
  LabelFields whole_{""};
  absl::flat_hash_set<std::string> seen_;  // columns that a row has had
  absl::string_view first_line_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordReader>> OpenJsonRecords(const DataFile& file,
                                                              const ImportSource& source,
                                                              LabelFields* labels) {
  ASSIGN_OR_RETURN(const absl::string_view text, TextOf(file));
  return std::unique_ptr<RecordReader>(std::make_unique<JsonRecords>(file, text, source, labels));
}

}  // namespace dslide
