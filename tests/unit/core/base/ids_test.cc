#include "core/base/ids.h"

#include <cstring>
#include <sstream>
#include <type_traits>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

// Two kinds of id share a representation and still do not mix.
static_assert(std::is_same_v<RowId::ValueType, LocalRow::ValueType>);
static_assert(!std::is_same_v<RowId, LocalRow>);
static_assert(!std::is_convertible_v<RowId, LocalRow>);
static_assert(!std::is_constructible_v<RowId, LocalRow>);
static_assert(!std::is_constructible_v<SlotId, RowId>);
static_assert(!std::is_assignable_v<RowId&, SlotId>);
static_assert(!std::is_convertible_v<uint32_t, RowId>);
static_assert(!std::is_convertible_v<RowId, uint32_t>);
static_assert(!std::is_assignable_v<Step&, int64_t>);

template <typename A, typename B>
concept Comparable = requires(A a, B b) {
  a == b;
};
static_assert(Comparable<RowId, RowId>);
static_assert(!Comparable<RowId, LocalRow>);
static_assert(!Comparable<RowId, uint32_t>);

// An array of ids is an array of its representation.
static_assert(std::is_trivially_copyable_v<RowId>);
static_assert(sizeof(RowId) == sizeof(uint32_t) && sizeof(Step) == sizeof(int64_t));

TEST(StrongIntTest, StartsAtZeroAndCounts) {
  Step step;
  EXPECT_EQ(step.value(), 0);
  EXPECT_EQ(++step, Step(1));
  EXPECT_LT(step, Step(2));
  EXPECT_GE(ShardId(3), ShardId(-3));
}

TEST(StrongIntTest, PrintsItsNumber) {
  std::ostringstream out;
  out << RowId(4'294'967'295u) << ' ' << ShardId(-2);
  EXPECT_EQ(out.str(), "4294967295 -2");
}

TEST(StrongIntTest, WorksInHashSets) {
  const absl::flat_hash_set<RowId> rows = {RowId(1), RowId(2), RowId(1)};
  EXPECT_EQ(rows.size(), 2u);
  EXPECT_TRUE(rows.contains(RowId(2)));
}

TEST(StrongIntTest, AnArrayOfIdsHasTheBytesOfItsNumbers) {
  const std::vector<RowId> ids = {RowId(1), RowId(0x01020304)};
  const std::vector<uint32_t> numbers = {1, 0x01020304};
  EXPECT_EQ(std::memcmp(ids.data(), numbers.data(), 8), 0);
}

}  // namespace
}  // namespace dslide
