// Step operations on tables of records: memory, label trees, linear rows, fusion. The answers are
// in replies.h, what they mean in protos/dslide/v1/shard.proto.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"

namespace dslide {

// Sparse inputs of a batch.
struct SparseInputs {
  std::vector<uint32_t> offsets;  // [batch + 1]
  std::vector<RowId> features;    // strictly ascending within a sample
  std::vector<float> values;      // [features.size()]

  int64_t batch() const { return static_cast<int64_t>(offsets.size()) - 1; }
  absl::Span<const RowId> FeaturesOf(int64_t sample) const {
    return absl::MakeConstSpan(features).subspan(offsets[sample],
                                                 offsets[sample + 1] - offsets[sample]);
  }
  absl::Span<const float> ValuesOf(int64_t sample) const {
    return absl::MakeConstSpan(values).subspan(offsets[sample],
                                               offsets[sample + 1] - offsets[sample]);
  }
};

struct AppendPointsOp {
  std::string table;
  std::vector<uint32_t> numbers = {};  // [batch], strictly ascending
  SparseInputs inputs;
  std::vector<uint32_t> label_offsets;  // [batch + 1]
  std::vector<RowId> labels;            // strictly ascending within a sample
  std::vector<uint32_t> times = {};     // [batch], or empty: all 0
  uint32_t expire_before = 0;           // points of a smaller time are removed, and not added
};

struct PutRecordOp {
  std::string table;
  RowId row;
  std::string record;
};

struct GetRecordOp {
  std::string table;
  RowId row;
};

struct SolveRowsOp {
  std::string table;
  int64_t tree = 0;  // -1: centroids
  int64_t level = 0;
  int64_t first = 0;  // of the parents, or labels
  int64_t count = 0;
  bool count_points = false;  // of these labels; with centroids
};

struct FindNeighboursOp {
  std::string table;
  SparseInputs inputs;
  int64_t k = 0;
  std::vector<uint32_t> left_out;  // [batch] rows, or empty
  int64_t known_points = 0;        // whoever asks knows the labels of smaller numbers
};

struct ScoreRowsOp {
  std::string table;
  SparseInputs inputs;
  std::vector<uint32_t> row_offsets;  // [batch + 1]
  std::vector<RowId> rows;            // strictly ascending within a sample
};

}  // namespace dslide
