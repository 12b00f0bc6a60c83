#include "core/engine/data/import/label_field.h"

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace dslide {
namespace {

void AppendLabel(absl::string_view part, std::vector<std::string>* labels) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(part, absl::ByAnyChar(" \t\r\n\v\f"), absl::SkipEmpty());
  if (!words.empty()) labels->push_back(absl::StrJoin(words, " "));
}

}  // namespace

void LabelFields::Split(absl::string_view field, std::vector<std::string>* labels) {
  if (!separator_.empty()) {
    for (const absl::string_view part : absl::StrSplit(field, separator_)) {
      AppendLabel(part, labels);
    }
    return;
  }
  const size_t before = labels->size();
  AppendLabel(field, labels);
  if (labels->size() == before) return;
  ++fields_;
  for (size_t i = 0; i < kSuspects.size(); ++i) {
    if (field.find(kSuspects[i]) != absl::string_view::npos) ++with_suspect_[i];
  }
}

std::string LabelFields::SuspectedSeparator() const {
  for (size_t i = 0; i < kSuspects.size(); ++i) {
    if (2 * with_suspect_[i] > fields_) return std::string(1, kSuspects[i]);
  }
  return "";
}

}  // namespace dslide
