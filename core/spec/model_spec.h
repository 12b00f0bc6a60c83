// What a model is: named tables and how a network is trained with them. Data only.
//
// The JSON form (model_spec_json.h) and the wire form, dslide.v1.ModelSpec, have the same names;
// model_spec_visitor.h lists them. Sizes of 0 marked "from the data" are filled in before a model
// is created.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/partition/slot_map.h"
#include "core/spec/hash_spec.h"
#include "core/spec/optimizer_spec.h"
#include "core/spec/record_spec.h"

namespace dslide {

class TreeShape;

enum class TableRole {
  kEmbedding,  // wide input: row = feature; a sample's hidden vector sums the rows of its features
  kDense,      // small hidden layer: row = output unit with a bias; gathered and scattered whole
  kHead,       // wide output: row = label with a bias and hash tables
  // Tables of records: rows are byte strings of any length, some of them absent (record_store.h).
  kMemory,      // row = training point: its features and labels. On every shard
  kLabelTrees,  // row = piece of one tree over the labels. On every shard
  kLinear,      // row = sparse weights of a label or of a cluster of labels
  kFusion,      // one row: the weights of the components' logits. On every shard
};

// Whether the rows are records of any length.
bool IsRecordRole(TableRole role);
// Whether every shard may hold every row; else a row is on the shard that owns its slot.
bool IsReplicated(TableRole role);
// "embedding", "label_trees", ...: as the JSON form writes it.
absl::string_view RoleName(TableRole role);

enum class InitKind {
  kZero,
  kUniform,   // in [-scale, scale)
  kGaussian,  // mean 0, standard deviation `scale`
};

struct InitSpec {
  InitKind kind = InitKind::kGaussian;
  double scale = 0.0;  // 0: 1 / sqrt(dim). Biases always start at 0.
  friend bool operator==(const InitSpec&, const InitSpec&) = default;
};

// How a table's rows are stored. Arithmetic is always f32. bf16 halves the bytes; stored values are
// rounded at random, up as often as their distance says, so that updates far smaller than the
// distance of two bf16 numbers add up to what they should.
enum class RowPrecision {
  kF32,
  kBf16Weights,  // weights bf16; optimizer state f32
  kBf16,         // weights and state vectors bf16
  // Bias, its state, the state of a whole row and the last step are never shortened.
};

// "f32", "bf16_weights" or "bf16": as the JSON form writes them.
absl::string_view PrecisionName(RowPrecision precision);

enum class HeadLoss {
  kSoftmax,  // target of a true label is 1 / number of labels
  kSigmoid,  // an independent yes/no for every active row
};

struct HeadSpec {
  HeadLoss loss = HeadLoss::kSoftmax;
  // Active rows of one sample over all shards, labels included; a shard's part of it follows its
  // share of the rows. 0: every row is active (the exact loss; no hashing).
  int64_t max_active = 300;
  // Random rows that a batch shares, over all shards, to estimate what the inactive rows add to the
  // softmax sum. 0: plain SLIDE (the sum runs over the active rows alone).
  int64_t tail_rows = 512;
  // Of max_active, this many places go to candidates that hashing found and that would be cut:
  // drawn at random, each weighted by how many it stands for, so that the cut adds nothing to the
  // softmax sum on average. 0: the best candidates alone. Below max_active; not with
  // hash.proposed_per_sample.
  int64_t sampled_candidates = 0;
  HashSpec hash;
  // Samples whose exact top 10 a step compares with their active sets: the recall metric. 0: none.
  int64_t recall_samples = 1;
  // A step samples recall when its number is a multiple of this. 0 chooses it from the number of
  // rows, which are all scanned. Range [1, 1000000].
  int64_t recall_every_steps = 0;
  // Steps do not change the biases: they stay 0, or what a scatter or a load has made them.
  bool fixed_bias = false;
  friend bool operator==(const HeadSpec&, const HeadSpec&) = default;
};

struct TableSpec {
  std::string name;  // [a-z0-9-]{1,64}, unique in the model
  TableRole role = TableRole::kEmbedding;
  // Rows. Embedding: features, plus one when bias_row is set; head: labels; memory: points; 0: from
  // the data (dense: must be set; fusion: 1). At most kMaxTableRows.
  int64_t rows = 0;
  // Embedding, head and memory: the rows for which it was made, where it has more: it was given
  // room to spare, or has grown. What follows from the number of rows follows from this one, so
  // that it stays. 0: `rows`. Below rows.
  int64_t base_rows = 0;
  // Of a table of records: this, init, optimizer and precision are their defaults.
  int64_t dim = 0;  // floats of a row, [1, 65536]
  // Embedding only: the last of the base rows is a feature of value 1 in every sample: the hidden
  // layer's bias.
  bool bias_row = false;
  int64_t num_slots = kDefaultNumSlots;  // [1, kMaxNumSlots]
  InitSpec init;
  OptimizerSpec optimizer;
  RowPrecision precision = RowPrecision::kF32;
  HeadSpec head;         // when role is kHead; the default otherwise, and so on
  MemorySpec memory;     // kMemory
  LabelTreesSpec trees;  // kLabelTrees
  LinearSpec linear;     // kLinear
  friend bool operator==(const TableSpec&, const TableSpec&) = default;
};

// Whether rows keep an average, which predictions read.
inline bool IsAveraged(const TableSpec& table) { return table.optimizer.average_decay > 0.0; }

// Floats on the wire between trainer and shards, both ways.
enum class ActivationType { kF32, kBf16 };

enum class InputTransform {
  kRaw,    // values as they stand in the file
  kL2,     // scaled to unit length
  kTfIdf,  // (1 + ln value) * ln((1 + points) / (1 + points with the feature)), then unit length
};

// How a trainer uses the model. Shards ignore it.
struct TrainingSpec {
  InputTransform transform = InputTransform::kL2;
  double input_dropout = 0.0;   // probability that a sample's feature is left out of a step; [0, 1)
  double hidden_dropout = 0.0;  // probability that a hidden unit is left out of a step; [0, 1)
  int64_t batch_size = 256;     // [1, 65536]
  int64_t in_flight_steps = 2;  // batches a trainer keeps moving; bounds staleness; [1, 64]
  int64_t max_epochs = 10;      // [1, 1000000]
  int64_t chunk_samples = 0;    // points leased to a trainer at once; 0: 16 batches
  // Part of the training points held out to choose the best epoch; 0: train on all, keep the last.
  double validation_fraction = 0.05;  // [0, 0.5]
  int64_t validation_max_samples = 2000;
  int64_t patience_epochs = 3;  // epochs without a better P@1 before training ends; 0: never
  // The target of a label is multiplied by its inverse propensity (eval/propensity.h) to this
  // power, so that rare labels count for more: the loss then estimates the propensity-scored
  // precision. 0: no. [0, 1]; above 0 the head's loss must be softmax.
  double propensity_strength = 0.0;
  uint64_t order_seed = 0;  // of the order of points, dropout, recall samples; 0: ModelSpec.seed
  friend bool operator==(const TrainingSpec&, const TrainingSpec&) = default;
};

struct ModelSpec {
  std::string name;   // [a-z0-9-]{1,64}
  uint64_t seed = 1;  // of the first weights and of the tail rows
  // In the order of the forward pass: embedding, dense ..., head; then tables of records.
  std::vector<TableSpec> tables;
  ActivationType activations = ActivationType::kF32;
  // Requests with a larger magnitude anywhere are refused; a weight that would pass it is not
  // stored.
  double magnitude_bound = 1e4;  // (0, 1e30]
  TrainingSpec training;
  std::string retired_labels;  // never predicted (retired_labels.h); may change at any time

  // Checks every field and the fit between tables: names unique; at most one embedding, then any
  // number of dense tables, then at most one head; dims chain (a dense table's dim is the width
  // before it and its rows the width after); then at most one table of each role of records, in any
  // order: label trees with memory and linear, linear with label trees, fusion with memory.
  // `sizes_known` also refuses sizes of 0.
  // Errors: InvalidArgument naming the field ("tables[1].head.max_active"), the value and the
  // range.
  absl::Status Validate(bool sizes_known) const;

  // Of what a job draws at random.
  uint64_t order_seed() const { return training.order_seed != 0 ? training.order_seed : seed; }

  // Null when there is none.
  const TableSpec* FindTable(absl::string_view name) const;
  // Null when the model has no table of that role. For kDense: the first.
  const TableSpec* FindRole(TableRole role) const;
  // Above every label; 0 while it is left to the data.
  int64_t num_labels() const;

  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

inline constexpr int64_t kMaxModelTables = 64;
inline constexpr int64_t kMaxRowDim = 65536;

// Which rows belong to what in the tables of label trees and linear rows. Requires both tables'
// sizes.
TreeShape ShapeOfTrees(const MemorySpec& memory, const LabelTreesSpec& trees);

// The settings of table `head` that shards and clients use: its own, with those chosen that are
// left to the number of rows. Requires head.rows > 0.
HeadSpec ResolvedHead(const TableSpec& head);

}  // namespace dslide
