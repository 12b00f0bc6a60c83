// A small model with a table of every role of records, and what its records may be.

#pragma once

#include <cstdint>
#include <string>

#include "core/base/counter_rng.h"
#include "tests/unit/services/shard/shard_samples.h"

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
  add("trees", TableRole::kLabelTrees, 3);
  add("linear", TableRole::kLinear, 500);
  add("fusion", TableRole::kFusion, 1);
  spec.tables[4].trees.labels = kSampleLabels;
  return spec;
}

inline constexpr size_t kFirstRecordTable = 3;

// A record of table `number` of that model.
inline std::string SampleRecord(size_t number, CounterRng& rng) {
  std::string record(1 + rng.NextBelow(number == 4 ? 2000 : 90), '\0');
  for (char& byte : record) byte = static_cast<char>(rng.NextBelow(256));
  return record;
}

}  // namespace dslide::shard
