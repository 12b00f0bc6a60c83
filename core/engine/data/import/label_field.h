// The labels that one field of a row holds.

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace dslide {

// Appends the labels of a field: parts between separators ("": the whole field), without white
// space at their ends, runs of it inside them one blank; empty parts are none. Watches for
// separators that nobody has named. Not thread-safe.
class LabelFields {
 public:
  explicit LabelFields(std::string separator) : separator_(std::move(separator)) {}

  void Split(absl::string_view field, std::vector<std::string>* labels);

  // What most fields hold although it is not the separator: ';', '|' or ','; "" when none does.
  std::string SuspectedSeparator() const;

 private:
  static constexpr absl::string_view kSuspects = ";|,";

  std::string separator_;
  int64_t fields_ = 0;
  std::array<int64_t, 3> with_suspect_ = {};
};

}  // namespace dslide
