// Labels of a model that are never predicted, as its spec names them: "3,7-12".

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dslide {

// A set of labels, kept as ranges. Thread safety: as a plain struct.
class RetiredLabels {
 public:
  struct Range {
    int64_t first = 0;
    int64_t last = 0;  // one of them, too
    friend bool operator==(const Range&, const Range&) = default;
  };

  RetiredLabels() = default;
  // Of any order and overlap. Requires 0 <= first <= last of each.
  explicit RetiredLabels(std::vector<Range> ranges);
  // Labels and ranges of them between commas, in any order; "" has none.
  // Errors: InvalidArgument naming the part that is neither, or beyond any table.
  static absl::StatusOr<RetiredLabels> Parse(absl::string_view text);

  // The shortest text that Parse() makes this of: equal sets have equal texts.
  std::string ToText() const;

  bool empty() const { return ranges_.empty(); }
  int64_t size() const;
  // Above every label; 0 for none.
  int64_t end() const { return empty() ? 0 : ranges_.back().last + 1; }
  bool Contains(int64_t label) const;
  // Ascending, with a gap between one and the next.
  const std::vector<Range>& ranges() const { return ranges_; }

  RetiredLabels With(const RetiredLabels& others) const;
  RetiredLabels Without(const RetiredLabels& others) const;

 private:
  std::vector<Range> ranges_;
};

// Of the text, which is a part of every registration of the model.
inline constexpr int64_t kMaxRetiredText = 1 << 20;

}  // namespace dslide
