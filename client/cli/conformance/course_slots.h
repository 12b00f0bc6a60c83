// Who owns which row in the course's cluster.

#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/cli/conformance/course.h"
#include "client/cli/conformance/verdicts.h"
#include "core/base/ids.h"
#include "core/partition/slot_map.h"

namespace dslide::cli {

// Immutable and thread-safe.
class CourseSlots {
 public:
  // The slots of all tables. Errors: those of SlotMap::Deal().
  static absl::StatusOr<CourseSlots> Deal(const Course& course);

  const SlotMap& of(const TableSpec& table) const { return maps_.at(table.num_slots); }

  // Tells of the first row that `shard` does not own.
  //   call, where : for the mistake; field: the array's name
  void CheckOwner(const TableSpec& table, int shard, absl::Span<const RowId> rows, Mistake mistake,
                  Verdicts& verdicts) const;

 private:
  std::map<int64_t, SlotMap> maps_;  // by number of slots
};

// "[3, 17, 20, ... 9 more]".
std::string ListOf(absl::Span<const RowId> rows);
std::string ListOf(absl::Span<const uint32_t> numbers);
// With as many digits as tell two floats apart.
std::string NumberOf(float value);
std::string NumberOf(double value);

}  // namespace dslide::cli
