#include "core/partition/slot_map.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"

namespace dslide {
namespace {

absl::Status CheckCounts(int64_t num_slots, int64_t num_shards) {
  if (num_slots < 1 || num_slots > kMaxNumSlots) {
    return absl::InvalidArgumentError(
        absl::StrFormat("num_slots is %d, must be in [1, %d]", num_slots, kMaxNumSlots));
  }
  if (num_shards < 1 || num_shards > kMaxShards) {
    return absl::InvalidArgumentError(
        absl::StrFormat("number of shards is %d, must be in [1, %d]", num_shards, kMaxShards));
  }
  if (num_shards > num_slots) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%d shards are more than the table's %d slots; use fewer shards or raise num_slots",
        num_shards, num_slots));
  }
  return absl::OkStatus();
}

}  // namespace

SlotMap::SlotMap(std::vector<ShardId> owners, int64_t num_shards)
    : owners_(std::move(owners)), num_shards_(num_shards) {}

absl::StatusOr<SlotMap> SlotMap::Deal(int64_t num_slots, absl::Span<const double> weights) {
  const int64_t num_shards = static_cast<int64_t>(weights.size());
  if (absl::Status status = CheckCounts(num_slots, num_shards); !status.ok()) return status;
  for (int64_t shard = 0; shard < num_shards; ++shard) {
    if (!(weights[shard] > 0.0) || !std::isfinite(weights[shard])) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "capacity weight of shard %d is %g, must be positive and finite", shard, weights[shard]));
    }
  }
  // Scaled by the largest, so that equal weights are exactly 1 and their ties are exact.
  const double largest = *std::max_element(weights.begin(), weights.end());
  std::vector<double> scaled(num_shards);
  double total = 0.0;
  for (int64_t shard = 0; shard < num_shards; ++shard) {
    scaled[shard] = weights[shard] / largest;
    total += scaled[shard];
  }

  std::vector<ShardId> owners(num_slots);
  std::vector<double> dealt(num_shards, 0.0);
  for (int64_t slot = 0; slot < num_slots; ++slot) {
    const double next_count = static_cast<double>(slot + 1);
    int64_t best = 0;
    double best_deficit = 0.0;
    for (int64_t shard = 0; shard < num_shards; ++shard) {
      // How far the shard is behind its share, times `total`: no division, no accumulated error.
      const double deficit = scaled[shard] * next_count - dealt[shard] * total;
      if (shard == 0 || deficit > best_deficit) {
        best = shard;
        best_deficit = deficit;
      }
    }
    owners[slot] = ShardId(static_cast<int32_t>(best));
    dealt[best] += 1.0;
  }
  return SlotMap(std::move(owners), num_shards);
}

absl::StatusOr<SlotMap> SlotMap::FromOwners(std::vector<ShardId> owners, int64_t num_shards) {
  const int64_t num_slots = static_cast<int64_t>(owners.size());
  if (absl::Status status = CheckCounts(num_slots, num_shards); !status.ok()) return status;
  for (int64_t slot = 0; slot < num_slots; ++slot) {
    if (owners[slot].value() < 0 || owners[slot].value() >= num_shards) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "slot %d is owned by shard %d, outside [0, %d)", slot, owners[slot].value(), num_shards));
    }
  }
  return SlotMap(std::move(owners), num_shards);
}

ShardRows::ShardRows(const SlotMap& map, ShardId shard, int64_t table_rows)
    : table_rows_(table_rows), slot_position_(map.num_slots(), -1) {
  const int64_t num_slots = map.num_slots();
  const int64_t longer_slots = table_rows % num_slots;  // slots below it have one row more
  short_slot_rows_ = table_rows / num_slots;
  first_local_.push_back(0);
  for (int64_t slot = 0; slot < num_slots; ++slot) {
    if (map.owners()[slot] != shard) continue;
    slot_position_[slot] = static_cast<int32_t>(slots_.size());
    slots_.push_back(SlotId(static_cast<uint32_t>(slot)));
    if (slot < longer_slots) ++long_slots_;
    num_rows_ += short_slot_rows_ + (slot < longer_slots ? 1 : 0);
    first_local_.push_back(num_rows_);
  }
}

ShardRows ShardRows::All(int64_t table_rows) {
  return ShardRows(*SlotMap::Deal(/*num_slots=*/1, {1.0}), ShardId(0), table_rows);
}

bool ShardRows::Holds(RowId row) const {
  return row.value() < table_rows_ && slot_position_[row.value() % slot_position_.size()] >= 0;
}

LocalRow ShardRows::ToLocal(RowId row) const {
  const uint32_t num_slots = static_cast<uint32_t>(slot_position_.size());
  const int32_t position = slot_position_[row.value() % num_slots];
  return LocalRow(static_cast<uint32_t>(first_local_[position]) + row.value() / num_slots);
}

RowId ShardRows::ToGlobal(LocalRow row) const {
  // Slots ascend, so the owned ones with one row more come first: no search is needed.
  const int64_t local = row.value();
  const int64_t long_rows = long_slots_ * (short_slot_rows_ + 1);
  const int64_t position = local < long_rows ? local / (short_slot_rows_ + 1)
                                             : long_slots_ + (local - long_rows) / short_slot_rows_;
  const int64_t index = local - first_local_[position];
  return RowId(static_cast<uint32_t>(index * static_cast<int64_t>(slot_position_.size()) +
                                     slots_[position].value()));
}

}  // namespace dslide
