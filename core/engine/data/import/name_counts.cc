#include "core/engine/data/import/name_counts.h"

#include <algorithm>

namespace dslide {

uint32_t NameCounts::Number(absl::string_view name) {
  const auto known = numbers_.find(name);
  if (known != numbers_.end()) return known->second;
  const auto number = static_cast<uint32_t>(names_.size());
  numbers_.emplace(names_.emplace_back(name), number);
  counts_.push_back(0);
  return number;
}

NameCounts::Ranking NameCounts::Rank(int64_t min_count, int64_t max_size,
                                     absl::Span<const std::string> known) const {
  Ranking ranking;
  ranking.names.assign(known.begin(), known.end());
  ranking.ids = Match(known);
  std::vector<uint32_t> order;
  int64_t counted = 0;  // of those that are not known
  for (uint32_t number = 0; number < counts_.size(); ++number) {
    if (ranking.ids[number] != Ranking::kLeftOut) continue;
    if (counts_[number] > 0) ++counted;
    if (counts_[number] >= min_count) order.push_back(number);
  }
  std::sort(order.begin(), order.end(), [this](uint32_t a, uint32_t b) {
    return counts_[a] != counts_[b] ? counts_[a] > counts_[b] : names_[a] < names_[b];
  });
  const int64_t room = std::max<int64_t>(0, max_size - static_cast<int64_t>(known.size()));
  if (static_cast<int64_t>(order.size()) > room) order.resize(static_cast<size_t>(room));
  ranking.left_out = counted - static_cast<int64_t>(order.size());
  for (const uint32_t number : order) {
    ranking.ids[number] = static_cast<uint32_t>(ranking.names.size());
    ranking.names.emplace_back(names_[number]);
  }
  return ranking;
}

std::vector<uint32_t> NameCounts::Match(absl::Span<const std::string> names) const {
  std::vector<uint32_t> ids(names_.size(), Ranking::kLeftOut);
  for (size_t id = 0; id < names.size(); ++id) {
    const auto number = names[id].empty() ? numbers_.end() : numbers_.find(names[id]);
    if (number == numbers_.end() || ids[number->second] != Ranking::kLeftOut) continue;
    ids[number->second] = static_cast<uint32_t>(id);
  }
  return ids;
}

}  // namespace dslide
