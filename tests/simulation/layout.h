// The small model of the simulated cluster, and who writes where in it.
//
// Table "cells" starts at 0 everywhere. An increment adds 1 to a cell of its own: 0 means lost,
// 2 twice. A step adds 1 to every number of its trainer's row on every shard.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/partition/slot_map.h"
#include "core/protocol/commands.h"
#include "core/spec/model_spec.h"
#include "services/shard/state/shard_core.h"

namespace dslide::simulation {

inline constexpr char kModel[] = "m";
inline constexpr char kCells[] = "cells";
inline constexpr char kHead[] = "head";
inline constexpr int64_t kDim = 4;

struct Cell {
  int shard = 0;
  RowId row;
  LocalRow local;
  int64_t column = 0;
};

// Not thread-safe.
class Layout {
 public:
  explicit Layout(int shards);

  int shards() const { return static_cast<int>(places_.size()); }
  const ModelSpec& spec() const { return spec_; }
  CreateModelCommand CreateOn(int shard) const;

  // A cell of the shard, or a row of it, that nobody has had. Nothing when all are taken.
  std::optional<Cell> NextCell(int shard);
  std::optional<Cell> NextRow(int shard);

  // A label that the shard holds.
  RowId LabelOn(int shard) const { return labels_[static_cast<size_t>(shard)]; }

  // What a core has in a cell; 0 where it has no rows.
  static float ValueIn(const shard::ShardCore& core, const Cell& cell);

 private:
  struct Place {
    std::vector<RowId> rows;  // in the shard's part of "cells"
    std::vector<LocalRow> locals;
    size_t first_free = 0;  // for cells; rows are taken from the end
    int64_t next_column = 0;
  };
  ModelSpec spec_;
  SlotMap slots_;
  std::vector<Place> places_;
  std::vector<RowId> labels_;
};

}  // namespace dslide::simulation
