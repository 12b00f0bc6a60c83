// What a shard can be asked to do: the alphabet of the state machine. The answers are in replies.h.
//
// Commands are decoded and shape-checked by core/wire before they reach the state machine, and own
// their memory. Row ids are still global: only the state machine knows which rows it holds.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/partition/slot_map.h"
#include "core/protocol/component_ops.h"
#include "core/protocol/explicit_rows.h"
#include "core/protocol/replies.h"
#include "core/protocol/stored_row_ops.h"
#include "core/spec/model_spec.h"

namespace dslide {

class RowSink;
struct ReceivedRows;

// Identity of a mutation; see RequestEnvelope in protos/dslide/v1/common.proto.
struct Envelope {
  std::string job;
  ClientId client = {};
  uint64_t sequence = 0;
  uint64_t first_incomplete = 0;
  uint64_t generation = 0;        // 0: not checked
  uint64_t topology_version = 0;  // 0: not checked
  std::string model;
};

using LearningRate = std::optional<double>;  // of one update; none: the model's, by its schedule

struct EmbedForwardOp {
  std::string table;
  std::vector<uint32_t> offsets;  // [batch + 1]
  std::vector<RowId> rows;        // strictly ascending within a sample
  std::vector<float> values;      // [rows.size()]
  bool averaged = false;          // sums of averaged rows, where the table keeps averages
  // [batch, BytesOfBits(dim)], bits of the sums that are wanted, the others are 0; empty: all.
  std::vector<uint8_t> wanted = {};
};

struct HeadForwardOp {
  std::string table;
  int64_t dim = 0;
  std::vector<float> hidden;            // [batch, dim]
  std::vector<uint32_t> fingerprints;   // [batch, num_tables] or empty
  std::vector<uint32_t> label_offsets;  // [batch + 1]
  std::vector<RowId> labels;
  std::vector<float> label_targets;       // [batch]
  std::vector<float> label_weights = {};  // [labels.size()], or empty: all 1
  std::vector<uint32_t> recall_samples;
  ExplicitRows<RowId> explicit_rows = {};  // beside those that fingerprints find, or alone
};

struct HeadBackwardOp {
  std::string table;
  std::vector<float> log_partitions;  // [batch] or empty (sigmoid)
  float scale = 0;
  LearningRate learning_rate = std::nullopt;
  bool rectified = false;  // the gradient is wanted where `hidden` was not 0
};

struct EmbedBackwardOp {
  std::string table;
  int64_t dim = 0;
  std::vector<float> gradient;  // [batch, dim]
  LearningRate learning_rate = std::nullopt;
};

struct DenseGatherOp {
  std::string table;
  bool averaged = false;
};

struct DenseScatterOp {
  std::string table;
  RowBlock gradients;
  LearningRate learning_rate = std::nullopt;
};

using StepOp = std::variant<EmbedForwardOp, HeadForwardOp, HeadBackwardOp, EmbedBackwardOp,
                            DenseGatherOp, DenseScatterOp, AppendPointsOp, PutRecordOp, GetRecordOp,
                            SolveRowsOp, FindNeighboursOp, ScoreRowsOp, LoadRowsOp>;

struct StepCommand {
  Envelope envelope;
  int64_t step = 0;             // key of the context, with the client
  int64_t first_open_step = 0;  // contexts below it are dropped
  StepOp op;
};

enum class ScatterMode { kGradient, kAdd, kAssign };

struct ScatterCommand {
  Envelope envelope;
  std::string table;
  ScatterMode mode = ScatterMode::kGradient;
  RowBlock rows;
  // Rows that still lie in the messages that brought them; `rows` is then empty. Shared by copies
  // of the command.
  std::shared_ptr<const ReceivedRows> received = nullptr;
  LearningRate learning_rate = std::nullopt;  // of gradients

  absl::Span<const RowId> row_ids() const;
};

struct GatherCommand {
  std::string model;
  std::string table;
  uint64_t topology_version = 0;
  bool by_fingerprint = false;
  std::vector<RowId> rows;             // by id; strictly ascending
  int64_t batch = 0;                   // by fingerprint
  std::vector<uint32_t> fingerprints;  // [batch, num_tables]
  int64_t max_active = 0;              // 0: the model's
  bool averaged = false;               // averaged rows, where the table keeps averages
  // Takes the rows; null: the answer holds them. Outlives the command.
  RowSink* sink = nullptr;
};

// An operation of a step that changes nothing, outside of any step.
struct ReadCommand {
  std::string model;
  uint64_t topology_version = 0;  // 0: not checked
  StepOp op;
};

struct TopKCommand {
  std::string model;
  std::string table;
  int64_t batch = 0;
  int64_t dim = 0;
  std::vector<float> hidden;  // [batch, dim]
  int64_t k = 0;
  bool hashed = false;
  std::vector<uint32_t> fingerprints;   // [batch, num_tables] when hashed
  ExplicitRows<RowId> candidates = {};  // without weights; not empty: only they are scored
  int64_t budget = 0;  // rows to score for a query, of all shards, when hashed; 0: as in training
};

struct CreateModelCommand {
  ModelSpec spec;
  ShardId shard = ShardId(0);
  std::vector<SlotMap> slot_maps;  // one per distinct num_slots
  uint64_t topology_version = 0;
  bool grow = false;     // also with fewer rows or other retired labels: it gets these
  bool dry_run = false;  // only says whether there is the memory
};

struct DropModelCommand {
  std::string model;
};

struct DescribeModelCommand {
  std::string model;
  bool with_digests = false;
};

struct HelloCommand {
  std::string job;
  ClientId client = {};
  uint64_t acknowledged_sequence = 0;
};

struct CloseClientCommand {
  std::string job;
  ClientId client = {};
};

// A mutation refused when it was decoded: the client's next one, always answered with `refusal`.
struct RefusedCommand {
  Envelope envelope;
  absl::Status refusal;
};

// Takes ownership of the shard's ordinal under a new generation.
struct SetOwnershipCommand {
  ShardId shard = ShardId(-1);
  uint64_t generation = 0;
  uint64_t topology_version = 0;
};

using Command =
    std::variant<StepCommand, ScatterCommand, GatherCommand, TopKCommand, CreateModelCommand,
                 DropModelCommand, DescribeModelCommand, HelloCommand, CloseClientCommand,
                 RefusedCommand, SetOwnershipCommand, ReadRowsCommand, ReadCommand>;

}  // namespace dslide
