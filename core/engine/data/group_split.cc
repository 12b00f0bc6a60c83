#include "core/engine/data/group_split.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/counter_rng.h"
#include "core/base/status_macros.h"
#include "core/engine/data/data_file.h"

namespace dslide {
namespace {

// That small groups alone are held out from.
constexpr int64_t kGroupsAtLeast = 20;

}  // namespace

absl::StatusOr<std::vector<uint32_t>> ReadGroups(const std::string& path, int64_t num_points) {
  ASSIGN_OR_RETURN(const DataFile file, DataFile::Open(path));
  absl::string_view rest = file.bytes();
  absl::flat_hash_map<absl::string_view, uint32_t> numbers;
  std::vector<uint32_t> groups;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const auto number = static_cast<uint32_t>(numbers.size());
    groups.push_back(numbers.try_emplace(rest.substr(0, end), number).first->second);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (static_cast<int64_t>(groups.size()) == num_points) return groups;
  return absl::InvalidArgumentError(absl::StrCat(
      path, " has ", groups.size(), " lines, the data ", num_points,
      " points: it must name the group of each point on a line of its own, in their order"));
}

std::vector<uint8_t> HoldOutGroups(absl::Span<const uint32_t> groups, uint64_t seed,
                                   double fraction, int64_t max_points) {
  std::vector<int64_t> sizes;
  for (const uint32_t group : groups) {
    if (group >= sizes.size()) sizes.resize(group + 1);
    ++sizes[group];
  }
  std::vector<uint32_t> order(sizes.size());
  for (uint32_t group = 0; group < order.size(); ++group) order[group] = group;
  CounterRng rng(seed);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.NextBelow(i)]);
  auto wanted = static_cast<int64_t>(fraction * static_cast<double>(groups.size()));
  if (max_points > 0) wanted = std::min(wanted, max_points);
  std::vector<uint8_t> chosen(sizes.size());
  int64_t room = wanted;
  const auto choose = [&](uint32_t group) {
    if (sizes[group] > room) return;
    room -= sizes[group];
    chosen[group] = 1;
  };
  const auto is_large = [&](uint32_t group) {
    return sizes[group] > std::max<int64_t>(1, wanted / kGroupsAtLeast);
  };
  for (const uint32_t group : order) {
    if (!is_large(group)) choose(group);
  }
  for (const uint32_t group : order) {
    if (is_large(group)) choose(group);
  }
  std::vector<uint8_t> held_out;
  held_out.reserve(groups.size());
  for (const uint32_t group : groups) held_out.push_back(chosen[group]);
  return held_out;
}

}  // namespace dslide
