#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "core/engine/data/import/line_records.h"
#include "core/engine/data/parse_error.h"
#include "core/engine/data/sparse_line.h"

namespace dslide {
namespace {

// label,label index:value index:value ... # comment
class SvmlightRecords final : public LineRecords {
 public:
  SvmlightRecords(const DataFile& file, absl::string_view text) : LineRecords(file, text) {}

 protected:
  absl::Status Read(absl::string_view line, ImportRecord* record) override {
    const absl::string_view content = line.substr(0, line.find('#'));
    // A line of a point without labels begins with a blank, or with its first feature.
    bool may_be_labels = !content.empty() && !absl::ascii_isspace(content.front());
    indices_.clear();
    for (const absl::string_view part :
         absl::StrSplit(content, absl::ByAnyChar(" \t"), absl::SkipEmpty())) {
      const bool is_labels = may_be_labels && part.find(':') == absl::string_view::npos;
      may_be_labels = false;
      if (is_labels) {
        for (const absl::string_view label : absl::StrSplit(part, ',', absl::SkipEmpty())) {
          record->labels.emplace_back(label);
        }
      } else {
        RETURN_IF_ERROR(ReadFeature(line, part, record));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ReadFeature(absl::string_view line, absl::string_view part, ImportRecord* record) {
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(part, absl::MaxSplits(':', 1));
    int64_t index = 0;
    float value = 0;
    const bool is_digits = !halves.first.empty() && absl::ascii_isdigit(halves.first.front());
    if (!is_digits || !absl::SimpleAtoi(halves.first, &index) ||
        !ParseFloat(halves.second, &value)) {
      return ErrorAt(line, part, QuoteFound(part),
                     "index:value with a whole number from 0 on and a finite decimal value");
    }
    if (!indices_.insert(index).second) {
      return ErrorAt(line, part, QuoteFound(part), "an index that is not yet on this line");
    }
    record->features.emplace_back(absl::StrCat(index), value);
    return absl::OkStatus();
  }

  absl::flat_hash_set<int64_t> indices_;  // of the line
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordReader>> OpenSvmlightRecords(const DataFile& file) {
  ASSIGN_OR_RETURN(const absl::string_view text, TextOf(file));
  return std::unique_ptr<RecordReader>(std::make_unique<SvmlightRecords>(file, text));
}

}  // namespace dslide
