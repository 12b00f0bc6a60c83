#include "client/cli/conformance/course_slots.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace dslide::cli {
namespace {

constexpr size_t kListed = 12;

template <typename T>
std::string Shortest(T value) {
  std::array<char, 40> text = {};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end.ptr};
}

}  // namespace

absl::StatusOr<CourseSlots> CourseSlots::Deal(const Course& course) {
  CourseSlots slots;
  std::vector<const ModelSpec*> models = {&course.rows, &course.answers};
  for (const CourseNet& net : course.nets) models.push_back(&net.spec);
  for (const ModelSpec* const model : models) {
    for (const TableSpec& table : model->tables) {
      if (slots.maps_.contains(table.num_slots)) continue;
      ASSIGN_OR_RETURN(SlotMap map, SlotMap::Deal(table.num_slots, kCourseShards));
      slots.maps_.emplace(table.num_slots, std::move(map));
    }
  }
  return slots;
}

void CourseSlots::CheckOwner(const TableSpec& table, int shard, absl::Span<const RowId> rows,
                             Mistake mistake, Verdicts& verdicts) const {
  verdicts.Saw(Chapter::kOwners);
  const SlotMap& map = of(table);
  const auto foreign = std::find_if(rows.begin(), rows.end(),
                                    [&](RowId row) { return map.OwnerOf(row).value() != shard; });
  if (foreign == rows.end()) return;
  mistake.chapter = Chapter::kOwners;
  mistake.found = absl::StrCat("row ", foreign->value(), " of table ", table.name);
  mistake.expected =
      absl::StrCat("rows of shard ", shard, "; slot ", foreign->value(), " % ", table.num_slots,
                   " = ", map.SlotOf(*foreign).value(), " is shard ", map.OwnerOf(*foreign).value(),
                   "'s by the owners of the cluster map");
  mistake.section = "who-owns-a-row";
  verdicts.Add(std::move(mistake));
}

std::string ListOf(absl::Span<const uint32_t> numbers) {
  std::string text = "[";
  for (size_t i = 0; i < std::min(numbers.size(), kListed); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", numbers[i]);
  }
  if (numbers.size() > kListed) absl::StrAppend(&text, ", ... ", numbers.size() - kListed, " more");
  return text + "]";
}

std::string ListOf(absl::Span<const RowId> rows) {
  std::vector<uint32_t> numbers;
  for (const RowId row : rows) numbers.push_back(row.value());
  return ListOf(numbers);
}

std::string NumberOf(float value) { return Shortest(value); }

std::string NumberOf(double value) { return Shortest(value); }

}  // namespace dslide::cli
