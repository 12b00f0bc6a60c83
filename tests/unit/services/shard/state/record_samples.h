// A small model with a table of every role of records, and what its records may be.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/counter_rng.h"
#include "core/engine/memory/point_record.h"
#include "core/engine/trees/sparse_row.h"
#include "tests/unit/services/shard/state/shard_samples.h"

namespace dslide::shard {

// Behind the tables of SampleSpec(): 3 memory, 4 label trees, 5 linear, 6 fusion.
inline ModelSpec SampleRecordSpec() {
  ModelSpec spec = SampleSpec();
  const auto add = [&](const char* name, TableRole role, int64_t rows) {
    TableSpec& table = spec.tables.emplace_back();
    table.name = name;
    table.role = role;
    table.rows = rows;
    table.num_slots = 16;
  };
  add("memory", TableRole::kMemory, 400);
  add("trees", TableRole::kLabelTrees, 5);
  add("linear", TableRole::kLinear, 5 * kSampleLabels);
  add("fusion", TableRole::kFusion, 1);
  spec.tables[3].memory.labels = kSampleLabels;
  spec.tables[4].trees.depth = 0;
  return spec;
}

inline constexpr size_t kFirstRecordTable = 3;

// A record of a row of table `number` of that model. Weights belong to features that many points
// have.
inline std::string SampleRecord(size_t number, LocalRow row, CounterRng& rng) {
  if (number == 3 || number == 5) {
    std::vector<RowId> columns;
    std::vector<float> values;
    for (uint32_t column = 0; column < (number == 3 ? 30 : 10); ++column) {
      if (rng.NextBelow(2) != 0) continue;
      columns.push_back(RowId(column));
      values.push_back(rng.NextUniform());
    }
    if (number == 3) {
      return EncodePoint(columns, values, {RowId(static_cast<uint32_t>(rng.NextBelow(9)))},
                         {.number = row.value()});
    }
    DenseRow row;
    row.Resize(10);
    for (size_t i = 0; i < columns.size(); ++i) {
      row.Touch(columns[i].value());
      row.weights[columns[i].value()] = values[i];
    }
    return EncodeSparseRow(row, rng.NextUniform(), 1, 0);
  }
  std::string record(1 + rng.NextBelow(number == 4 ? 2000 : 90), '\0');
  for (char& byte : record) byte = static_cast<char>(rng.NextBelow(256));
  return record;
}

}  // namespace dslide::shard
