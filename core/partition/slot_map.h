// Which shard owns which row: rows fall into slots, slots belong to shards.
//
// slot = row % num_slots, index = row / num_slots. A shard stores its slots one after the other in
// slot order, each with its rows in index order; LocalRow counts along that order. All row and slot
// arithmetic lives here.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/ids.h"

namespace dslide {

inline constexpr int64_t kDefaultNumSlots = 1024;
inline constexpr int64_t kMaxNumSlots = 65536;
inline constexpr int64_t kMaxShards = 1024;

// The owner of every slot. Immutable and thread-safe.
class SlotMap {
 public:
  // Deals the slots in proportion to the weights, spread evenly (each next slot goes to the shard
  // that is furthest behind its share; ties: the smaller shard). Pure: equal weights, equal map.
  // Errors: InvalidArgument when num_slots is outside [1, kMaxNumSlots], there are no or too many
  // weights, more shards than slots, or a weight is not a positive finite number.
  static absl::StatusOr<SlotMap> Deal(int64_t num_slots, absl::Span<const double> weights);

  // Takes owners as another process dealt them. owners: [num_slots], each in [0, num_shards).
  static absl::StatusOr<SlotMap> FromOwners(std::vector<ShardId> owners, int64_t num_shards);

  int64_t num_slots() const { return static_cast<int64_t>(owners_.size()); }
  int64_t num_shards() const { return num_shards_; }
  absl::Span<const ShardId> owners() const { return owners_; }

  SlotId SlotOf(RowId row) const {
    return SlotId(row.value() % static_cast<uint32_t>(num_slots()));
  }
  ShardId OwnerOf(RowId row) const { return owners_[SlotOf(row).value()]; }

  friend bool operator==(const SlotMap&, const SlotMap&) = default;

 private:
  SlotMap(std::vector<ShardId> owners, int64_t num_shards);

  std::vector<ShardId> owners_;  // [num_slots]
  int64_t num_shards_ = 0;
};

// One shard's rows of one table: translates between global and local ids. Immutable, thread-safe.
class ShardRows {
 public:
  // Every row, and ToLocal(RowId(i)) is LocalRow(i): of a table that each shard has whole.
  static ShardRows All(int64_t table_rows);
  // `table_rows` in [0, kMaxTableRows]; `shard` in [0, map.num_shards()).
  ShardRows(const SlotMap& map, ShardId shard, int64_t table_rows);

  int64_t table_rows() const { return table_rows_; }
  // Rows this shard holds.
  int64_t num_rows() const { return num_rows_; }
  // Slots over all shards.
  int64_t num_slots() const { return static_cast<int64_t>(slot_position_.size()); }
  // The slots this shard owns, ascending.
  absl::Span<const SlotId> slots() const { return slots_; }

  bool Holds(RowId row) const;
  // Requires Holds(row).
  LocalRow ToLocal(RowId row) const;
  // Requires row < num_rows().
  RowId ToGlobal(LocalRow row) const;

 private:
  int64_t table_rows_ = 0;
  int64_t num_rows_ = 0;
  int64_t short_slot_rows_ = 0;         // every owned slot has this many rows or one more
  int64_t long_slots_ = 0;              // the first so many of slots_ have one more
  std::vector<SlotId> slots_;           // owned, ascending
  std::vector<int64_t> first_local_;    // [slots owned + 1]: where each slot begins
  std::vector<int32_t> slot_position_;  // [num_slots]: position in slots_, or -1
};

}  // namespace dslide
