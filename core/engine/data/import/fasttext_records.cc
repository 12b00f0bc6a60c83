#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/status_macros.h"
#include "core/engine/data/import/line_records.h"

namespace dslide {
namespace {

// __label__a __label__b text; labels may stand anywhere, as fastText has it.
class FastTextRecords final : public LineRecords {
 public:
  FastTextRecords(const DataFile& file, absl::string_view text, std::string prefix)
      : LineRecords(file, text), prefix_(std::move(prefix)) {}

 protected:
  absl::Status Read(absl::string_view line, ImportRecord* record) override {
    std::string& text = record->texts.emplace_back();
    for (absl::string_view word :
         absl::StrSplit(line, absl::ByAnyChar(" \t\v\f\r"), absl::SkipEmpty())) {
      if (!absl::ConsumePrefix(&word, prefix_)) {
        absl::StrAppend(&text, text.empty() ? "" : " ", word);
      } else if (!word.empty()) {
        record->labels.emplace_back(word);
      }
    }
    return absl::OkStatus();
  }

 private:
  const std::string prefix_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordReader>> OpenFastTextRecords(const DataFile& file,
                                                                  const ImportSource& source) {
  ASSIGN_OR_RETURN(const absl::string_view text, TextOf(file));
  return std::unique_ptr<RecordReader>(
      std::make_unique<FastTextRecords>(file, text, source.label_prefix));
}

}  // namespace dslide
