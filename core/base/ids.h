// Strong integer types for ids, so that a row cannot be passed where a shard is meant.
//
// Each is a trivially copyable wrapper of its representation: an array of RowId has the same bytes
// as an array of its representation, which is what the wire carries (little-endian).

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <ostream>

namespace dslide {

// An integer of one kind. Conversion to and from the representation is explicit.
template <typename Tag, typename Rep>
class StrongInt {
 public:
  using ValueType = Rep;

  constexpr StrongInt() = default;
  constexpr explicit StrongInt(Rep value) : value_(value) {}

  constexpr Rep value() const { return value_; }

  constexpr StrongInt& operator++() {
    ++value_;
    return *this;
  }
  friend constexpr auto operator<=>(StrongInt, StrongInt) = default;
  friend std::ostream& operator<<(std::ostream& out, StrongInt id) { return out << +id.value_; }

  // Lets absl hash containers hold ids.
  template <typename H>
  friend H AbslHashValue(H state, StrongInt id) {
    return H::combine(std::move(state), id.value_);
  }

 private:
  Rep value_ = 0;
};

// A row of a table, counted over the whole model: a feature of the input or a label of the head.
using RowId = StrongInt<struct RowIdTag, uint32_t>;
// The place of a row inside one shard's part of a table: 0 .. rows held by the shard - 1.
using LocalRow = StrongInt<struct LocalRowTag, uint32_t>;
// `row % num_slots`: the unit of ownership and movement.
using SlotId = StrongInt<struct SlotIdTag, uint32_t>;
// A shard server's ordinal: 0 .. number of shards - 1.
using ShardId = StrongInt<struct ShardIdTag, int32_t>;
// A count of applied updates.
using Step = StrongInt<struct StepTag, int64_t>;

// Tables have at most this many rows; it keeps a row id in 32 bits on the wire and in memory.
inline constexpr int64_t kMaxTableRows = int64_t{1} << 31;
// Stands for "no row", where there are fewer than were asked for.
inline constexpr RowId kNoRow = RowId(0xffffffff);

// 128 random bits, one per client process.
using ClientId = std::array<uint8_t, 16>;

}  // namespace dslide
