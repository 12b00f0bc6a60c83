// What a shard answers to the commands of commands.h.

#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "core/base/ids.h"
#include "core/protocol/head_answers.h"
#include "core/protocol/stored_row_ops.h"
#include "core/spec/model_spec.h"

namespace dslide {

// Rows with their numbers, as they travel.
struct RowBlock {
  std::vector<RowId> rows;  // strictly ascending
  int64_t dim = 0;
  std::vector<float> values;  // [rows, dim]
  std::vector<float> biases;  // [rows] or empty
};

struct MatrixReply {
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<float> data = {};  // [rows, cols]
  bool sparse = false;           // travels without its zeros
};

struct EmbedForwardReply {
  MatrixReply partial;
};
struct HeadForwardReply {
  HeadForwardOutput output;
};
struct HeadBackwardReply {
  MatrixReply hidden_gradient;
  int64_t rejected_rows = 0;  // updates left out, which would pass the model's magnitude bound
};
struct EmbedBackwardReply {
  int64_t distinct_rows = 0;
  int64_t rejected_rows = 0;  // as in HeadBackwardReply
};
struct DenseGatherReply {
  RowBlock rows;
};
struct DenseScatterReply {};
struct AppendPointsReply {
  int64_t points = 0;  // present
  int64_t next = 0;    // above the number of each of them
};
struct PutRecordReply {};
struct GetRecordReply {
  std::string record;
};
struct SolveRowsReply {
  int64_t rows = 0;
  int64_t entries = 0;
  std::vector<uint32_t> label_points;  // [count] where they were to be counted
};
struct FindNeighboursReply {
  std::vector<uint32_t> counts;  // [batch]
  std::vector<RowId> points;     // [neighbours] their rows
  std::vector<float> similarities;
  std::vector<uint32_t> label_offsets;  // [neighbours + 1], or {0} where labels are left out
  std::vector<RowId> labels;
  bool labels_left_out = false;  // all points are known
};
struct ScoreRowsReply {
  std::vector<float> scores;
};
struct ScatterReply {
  int64_t applied_steps = 0;
};
struct GatherReply {
  RowBlock rows;
  std::vector<uint32_t> sample_offsets;  // by fingerprint: [batch + 1]
  std::vector<RowId> sample_rows;
};
struct TopKReply {
  ScoredRows scored;
  int64_t k = 0;
  bool given = false;  // the rows that the command named were scored
};
struct CreateModelReply {
  bool created = false;
};
struct DropModelReply {};
struct TableStateReply {
  std::string name;
  int64_t shard_rows = 0;
  int64_t applied_steps = 0;
  int64_t memory_bytes = 0;
  uint64_t digest = 0;
};
struct DescribeModelReply {
  ModelSpec spec;
  std::vector<TableStateReply> tables;
};
struct HelloReply {
  uint64_t generation = 0;
  uint64_t topology_version = 0;
  uint64_t next_sequence = 0;
};
struct CloseClientReply {};
struct SetOwnershipReply {};

using ReplyBody =
    std::variant<std::monostate, EmbedForwardReply, HeadForwardReply, HeadBackwardReply,
                 EmbedBackwardReply, DenseGatherReply, DenseScatterReply, ScatterReply, GatherReply,
                 TopKReply, CreateModelReply, DropModelReply, DescribeModelReply, HelloReply,
                 CloseClientReply, SetOwnershipReply, AppendPointsReply, PutRecordReply,
                 GetRecordReply, SolveRowsReply, FindNeighboursReply, ScoreRowsReply, LoadRowsReply,
                 ReadRowsReply>;

// The answer to one command. `body` is monostate exactly when `status` is not OK.
struct Reply {
  absl::Status status;  // the reason word is its payload, see core/base/reason.h
  ReplyBody body;
};

}  // namespace dslide
