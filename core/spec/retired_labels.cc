#include "core/spec/retired_labels.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/ids.h"
#include "core/base/status_macros.h"

namespace dslide {
namespace {

absl::StatusOr<RetiredLabels::Range> ParseRange(absl::string_view part) {
  const std::pair<absl::string_view, absl::string_view> ends =
      absl::StrSplit(part, absl::MaxSplits('-', 1));
  RetiredLabels::Range range;
  const bool single = part.find('-') == absl::string_view::npos;
  const bool parsed = absl::SimpleAtoi(ends.first, &range.first) &&
                      absl::SimpleAtoi(single ? ends.first : ends.second, &range.last);
  if (parsed && range.first >= 0 && range.first <= range.last && range.last < kMaxTableRows) {
    return range;
  }
  constexpr size_t kShown = 40;
  return absl::InvalidArgumentError(
      absl::StrCat("\"", part.substr(0, kShown), "\" names no labels: give numbers from 0 to ",
                   kMaxTableRows - 1, " and ranges of them, as 3,7-12"));
}

}  // namespace

RetiredLabels::RetiredLabels(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.first < b.first; });
  for (const Range& range : ranges) {
    if (!ranges_.empty() && range.first <= ranges_.back().last + 1) {
      ranges_.back().last = std::max(ranges_.back().last, range.last);
    } else {
      ranges_.push_back(range);
    }
  }
}

absl::StatusOr<RetiredLabels> RetiredLabels::Parse(absl::string_view text) {
  std::vector<Range> ranges;
  if (text.empty()) return RetiredLabels();
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    ASSIGN_OR_RETURN(ranges.emplace_back(), ParseRange(part));
  }
  return RetiredLabels(std::move(ranges));
}

std::string RetiredLabels::ToText() const {
  std::string text;
  for (const auto& [first, last] : ranges_) {
    absl::StrAppend(&text, text.empty() ? "" : ",", first);
    if (last > first) absl::StrAppend(&text, "-", last);
  }
  return text;
}

int64_t RetiredLabels::size() const {
  int64_t labels = 0;
  for (const auto& [first, last] : ranges_) labels += last - first + 1;
  return labels;
}

bool RetiredLabels::Contains(int64_t label) const {
  const auto after =
      std::upper_bound(ranges_.begin(), ranges_.end(), label,
                       [](int64_t value, const Range& range) { return value < range.first; });
  return after != ranges_.begin() && label <= std::prev(after)->last;
}

RetiredLabels RetiredLabels::With(const RetiredLabels& others) const {
  std::vector<Range> all = ranges_;
  all.insert(all.end(), others.ranges_.begin(), others.ranges_.end());
  return RetiredLabels(std::move(all));
}

RetiredLabels RetiredLabels::Without(const RetiredLabels& others) const {
  std::vector<Range> kept;
  auto other = others.ranges_.begin();
  for (Range mine : ranges_) {
    while (other != others.ranges_.end() && other->last < mine.first) ++other;
    // One of the others may reach into the next of mine: it stays the first to look at.
    for (auto cut = other; cut != others.ranges_.end() && cut->first <= mine.last; ++cut) {
      if (cut->first > mine.first) kept.push_back({mine.first, cut->first - 1});
      mine.first = cut->last + 1;
    }
    if (mine.first <= mine.last) kept.push_back(mine);
  }
  return RetiredLabels(std::move(kept));
}

}  // namespace dslide
