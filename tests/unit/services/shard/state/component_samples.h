// A small model of memory, trees, linear rows and fusion, and one shard of it.

#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/counter_rng.h"
#include "services/shard/state/components.h"

namespace dslide::shard {

inline constexpr int64_t kComponentPoints = 200;
inline constexpr int64_t kComponentLabels = 40;
inline constexpr int64_t kComponentSlots = 16;

inline ModelSpec ComponentSpec() {
  ModelSpec spec;
  spec.name = "m";
  for (const auto& [name, role] :
       {std::pair("points", TableRole::kMemory), std::pair("trees", TableRole::kLabelTrees),
        std::pair("linear", TableRole::kLinear), std::pair("fusion", TableRole::kFusion)}) {
    TableSpec& table = spec.tables.emplace_back();
    table.name = name;
    table.role = role;
    table.num_slots = kComponentSlots;
  }
  spec.tables[0].rows = kComponentPoints;
  spec.tables[0].memory.labels = kComponentLabels;
  spec.tables[1].trees.trees = 2;
  spec.tables[1].trees.depth = 2;
  const TreeShape shape = ShapeOfTrees(spec.tables[0].memory, spec.tables[1].trees);
  spec.tables[1].rows = shape.num_piece_rows();
  spec.tables[2].rows = shape.num_rows();
  spec.tables[3].rows = 1;
  EXPECT_TRUE(spec.Validate(/*sizes_known=*/true).ok());
  return spec;
}

// One shard of a cluster.
class ComponentShard {
 public:
  ComponentShard(const ModelSpec& spec, int shards, int number, int threads)
      : spec_(spec), map_(*SlotMap::Deal(kComponentSlots, std::vector<double>(shards, 1.0))) {
    for (const TableSpec& table : spec_.tables) {
      stores_.push_back(
          std::make_unique<RecordStore>(table, RecordStore::RowsOf(table, map_, ShardId(number))));
    }
    components_ = std::make_unique<Components>(ComponentTables{.spec = &spec_,
                                                               .memory = stores_[0].get(),
                                                               .trees = stores_[1].get(),
                                                               .linear = stores_[2].get(),
                                                               .fusion = stores_[3].get(),
                                                               .memory_slots = &map_,
                                                               .shard = ShardId(number)},
                                               Parallelism{threads});
  }

  Components& operator*() { return *components_; }
  Components* operator->() { return components_.get(); }
  RecordStore& store(size_t table) { return *stores_[table]; }
  // Every row that is there, by its global number.
  void Collect(size_t table, std::map<uint32_t, std::string>& rows) const {
    const RecordStore& store = *stores_[table];
    for (uint32_t i = 0; i < store.num_rows(); ++i) {
      const absl::Span<const char> record = store.Record(LocalRow(i));
      if (record.empty()) continue;
      const uint32_t row = store.rows().ToGlobal(LocalRow(i)).value();
      EXPECT_TRUE(rows.emplace(row, std::string(record.begin(), record.end())).second) << row;
    }
  }

 private:
  const ModelSpec spec_;
  const SlotMap map_;
  std::vector<std::unique_ptr<RecordStore>> stores_;
  std::unique_ptr<Components> components_;
};

// No points yet.
inline AppendPointsOp NoPoints() {
  return {.table = "points",
          .inputs = {.offsets = {0}, .features = {}, .values = {}},
          .label_offsets = {0},
          .labels = {}};
}

// Adds the point of this number to an operation. Its features are those of its labels, mostly.
inline void AddSamplePoint(uint32_t number, AppendPointsOp& op) {
  CounterRng rng(DeriveKey(5, number));
  op.numbers.push_back(number);
  const auto label = static_cast<uint32_t>(rng.NextBelow(kComponentLabels - 1));
  op.labels.push_back(RowId(label));
  op.labels.push_back(RowId(label + 1));
  op.label_offsets.push_back(static_cast<uint32_t>(op.labels.size()));
  for (uint32_t feature = 0; feature < 90; ++feature) {
    if (feature / 2 != label && rng.NextBelow(20) != 0) continue;
    op.inputs.features.push_back(RowId(feature));
    op.inputs.values.push_back(rng.NextUniform());
  }
  op.inputs.offsets.push_back(static_cast<uint32_t>(op.inputs.features.size()));
}

inline AppendPointsOp ComponentPoints(uint32_t first, uint32_t last) {
  AppendPointsOp op = NoPoints();
  for (uint32_t number = first; number < last; ++number) AddSamplePoint(number, op);
  return op;
}

inline PutRecordOp ComponentTree(int64_t tree) {
  std::string record(4 * kComponentLabels, '\0');
  for (uint32_t label = 0; label < kComponentLabels; ++label) {
    const uint32_t leaf = (label / 10 + static_cast<uint32_t>(tree)) % 4;
    std::memcpy(record.data() + 4 * label, &leaf, 4);
  }
  return {.table = "trees", .row = RowId(static_cast<uint32_t>(tree)), .record = record};
}

// What training does once the points are there.
inline void SolveComponents(ComponentShard& shard) {
  ASSERT_TRUE(
      shard->SolveRows({.table = "linear", .tree = -1, .first = 0, .count = kComponentLabels})
          .ok());
  for (int64_t tree = 0; tree < 2; ++tree) {
    ASSERT_TRUE(shard->PutRecord(ComponentTree(tree)).ok());
    ASSERT_TRUE(shard->SolveRows({.table = "linear", .tree = tree, .first = 0, .count = 1}).ok());
    for (const int64_t leaf : {0, 2}) {
      const auto solved = shard->SolveRows(
          {.table = "linear", .tree = tree, .level = 1, .first = leaf, .count = 2});
      ASSERT_TRUE(solved.ok()) << solved.status();
    }
  }
}

// Everything that training does.
inline void TrainComponents(ComponentShard& shard) {
  for (uint32_t first = 0; first < kComponentPoints; first += 50) {
    ASSERT_TRUE(shard->AppendPoints(ComponentPoints(first, first + 50)).ok());
  }
  SolveComponents(shard);
}

}  // namespace dslide::shard
