#include "client/cli/cluster/model_plan.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "client/cli/cluster/record_plan.h"
#include "core/base/bit_rows.h"
#include "core/base/parallel.h"
#include "core/base/status_macros.h"
#include "core/base/units.h"
#include "core/engine/rows/row_layout.h"
#include "core/partition/slot_map.h"
#include "core/spec/hash_spec.h"
#include "core/wire/arrays/array_codec.h"
#include "core/wire/arrays/sample_ids.h"
#include "core/wire/steps/step_size.h"

namespace dslide::cli {
namespace {

// Resident memory of dslide-shard besides its tables: 26 MB when idle, 36 MB after 60 steps, of
// which StepMemory() covers 5 (docs/operate/sizing.md).
constexpr int64_t kProcessBytes = int64_t{32} << 20;
// Numbers of a training under way: their size on the wire depends on how many digits they have.
constexpr uint64_t kTypicalSequence = 100'000;
constexpr int64_t kTypicalStep = 10'000;

int64_t CeilShare(double whole, int64_t parts) {
  return static_cast<int64_t>(std::ceil(whole / static_cast<double>(parts)));
}

// The rows of a table on the shard that holds most of them.
absl::StatusOr<int64_t> MostRows(const TableSpec& spec, int64_t shards) {
  const std::vector<double> weights(shards, 1.0);
  ASSIGN_OR_RETURN(const SlotMap map, SlotMap::Deal(spec.num_slots, weights));
  int64_t most = IsReplicated(spec.role) ? spec.rows : 0;
  for (int64_t shard = 0; shard < shards; ++shard) {
    const ShardRows rows(map, ShardId(static_cast<int32_t>(shard)), spec.rows);
    most = std::max(most, rows.num_rows());
  }
  return most;
}

double FeaturesPerSample(const PlanInput& input) {
  const TableSpec* const embedding = input.spec.FindRole(TableRole::kEmbedding);
  return input.features_per_sample + (embedding != nullptr && embedding->bias_row ? 1.0 : 0.0);
}

// The memory names a sample's active rows: about 30 candidates beside its labels.
double NamedRows(const PlanInput& input) { return 30.0 + input.labels_per_sample; }

// What open steps and the update of one hold on a shard: mirrors HeadContext, FeatureBatch, the
// scratch of HeadUpdater and the messages.
int64_t StepMemory(const PlanInput& input) {
  const ModelSpec& spec = input.spec;
  const double batch = static_cast<double>(spec.training.batch_size);
  const double shards = static_cast<double>(input.shards);
  double open = 12.0 * batch * FeaturesPerSample(input) / shards;
  double once = 0.0;
  for (const TableSpec& table : spec.tables) {
    const double matrix = 4.0 * batch * static_cast<double>(table.dim);
    once += 3.0 * matrix;  // request, gradient, answer
    if (table.role != TableRole::kHead) continue;
    const double rows = static_cast<double>(table.rows);
    const bool hashed = table.head.max_active > 0;
    const bool named = spec.FindRole(TableRole::kMemory) != nullptr;
    const double wanted = named    ? NamedRows(input)
                          : hashed ? static_cast<double>(table.head.max_active)
                                   : rows;
    const double active = std::min(rows, wanted) / shards;
    const double tail = static_cast<double>(table.head.tail_rows);
    const double shared = (named || hashed ? std::min(rows, tail) : rows) / shards;
    const double pair_bytes = table.head.sampled_candidates > 0 ? 13.0 : 9.0;  // with weights
    open += matrix + batch * (pair_bytes * active + 4.0 * shared +
                              4.0 * static_cast<double>(ResolvedHead(table).hash.num_tables));
    once += static_cast<double>(kFixedPartitions) * matrix + 24.0 * batch * active;
  }
  return static_cast<int64_t>(open * static_cast<double>(spec.training.in_flight_steps + 1) + once);
}

absl::StatusOr<ShardPlan> PlanShard(const PlanInput& input) {
  ShardPlan plan;
  for (const TableSpec& table : input.spec.tables) {
    TablePlan entry;
    entry.name = table.name;
    ASSIGN_OR_RETURN(entry.rows, MostRows(table, input.shards));
    entry.bytes = TableBytesFor(table, entry.rows);
    if (IsRecordRole(table.role)) {
      PlanRecordTable(input, table, entry);
    } else {
      entry.record_bytes = RowLayout::Of(table).record_bytes;
    }
    entry.working_bytes = WorkingBytesFor(table, entry.rows, input.threads);
    plan.tables.push_back(entry);
  }
  plan.step_bytes = StepMemory(input);
  plan.process_bytes = kProcessBytes;
  return plan;
}

// The messages of one operation on one shard.
struct Exchange {
  StepOp request;
  ReplyBody reply;
};

// Activations or gradients of a batch of which a share is not 0, spread evenly.
std::vector<float> WithShare(const PlanInput& input, const TableSpec& table, double share) {
  std::vector<float> numbers(input.spec.training.batch_size * table.dim);
  double due = 0;
  for (float& number : numbers) {
    due += share;
    if (due < 1) continue;
    number = 0.5f;
    due -= 1;
  }
  return numbers;
}

double KeptShare(const PlanInput& input) { return 1 - input.spec.training.hidden_dropout; }
// A rectifier lets half of what random weights give it through.
double ActiveShare(const PlanInput& input) { return 0.5 * KeptShare(input); }

// `total` ids of `rows` dealt to the samples, those of each spread evenly: what takes the most
// bytes when they are packed.
wire::SampleIds SpreadIds(int64_t batch, int64_t total, int64_t rows) {
  wire::SampleIds ids;
  ids.offsets.push_back(0);
  for (int64_t sample = 1; sample <= batch; ++sample) {
    const int64_t end = total * sample / batch;
    const int64_t count = end - ids.offsets.back();
    for (int64_t i = 0; i < count; ++i) {
      ids.rows.emplace_back(static_cast<uint32_t>(rows * (2 * i + 1) / (2 * count)));
    }
    ids.offsets.push_back(static_cast<uint32_t>(end));
  }
  return ids;
}

Exchange EmbedForwardOn(const PlanInput& input, const TableSpec& table) {
  const int64_t batch = input.spec.training.batch_size;
  const int64_t features =
      CeilShare(static_cast<double>(batch) * FeaturesPerSample(input), input.shards);
  EmbedForwardOp op;
  op.table = table.name;
  wire::SampleIds ids = SpreadIds(batch, features, table.rows);
  op.offsets = std::move(ids.offsets);
  op.rows = std::move(ids.rows);
  op.values.assign(features, 0.5f);
  const double kept = KeptShare(input);
  if (kept < 1) op.wanted.assign(batch * BytesOfBits(table.dim), 1);
  EmbedForwardReply reply{{.rows = batch,
                           .cols = table.dim,
                           .data = WithShare(input, table, kept),
                           .sparse = kept < 1}};
  return {std::move(op), std::move(reply)};
}

Exchange EmbedBackwardOn(const PlanInput& input, const TableSpec& table) {
  EmbedBackwardOp op;
  op.table = table.name;
  op.dim = table.dim;
  op.gradient = WithShare(input, table, ActiveShare(input));
  return {std::move(op), EmbedBackwardReply{.distinct_rows = kTypicalStep}};
}

void AddExplicitRows(const PlanInput& input, const TableSpec& table, HeadForwardOp& op) {
  const int64_t batch = input.spec.training.batch_size;
  const double of_sample = std::min(NamedRows(input), static_cast<double>(table.rows));
  const int64_t rows = CeilShare(static_cast<double>(batch) * of_sample, input.shards);
  wire::SampleIds ids = SpreadIds(batch, rows, table.rows);
  op.explicit_rows.offsets = std::move(ids.offsets);
  op.explicit_rows.rows = std::move(ids.rows);
  op.explicit_rows.logit_offsets.assign(rows, 0.5f);
  op.explicit_rows.weights.assign(rows, 0.5f);
}

Exchange HeadForwardOn(const PlanInput& input, const TableSpec& table) {
  const int64_t batch = input.spec.training.batch_size;
  const int64_t labels =
      CeilShare(static_cast<double>(batch) * input.labels_per_sample, input.shards);
  HeadForwardOp op;
  op.table = table.name;
  op.dim = table.dim;
  op.hidden = WithShare(input, table, ActiveShare(input));
  if (table.head.max_active > 0)
    op.fingerprints.assign(batch * ResolvedHead(table).hash.num_tables, 1);
  wire::SampleIds ids = SpreadIds(batch, labels, table.rows);
  op.label_offsets = std::move(ids.offsets);
  op.labels = std::move(ids.rows);
  op.label_targets.assign(batch, 0.5f);
  if (input.spec.FindRole(TableRole::kMemory) != nullptr) AddExplicitRows(input, table, op);
  HeadForwardOutput output;
  output.max_logits.assign(batch, 0.5f);
  output.exp_sums.assign(batch, 0.5f);
  output.label_logits.assign(labels, 0.5f);
  output.active_pairs = batch * std::max<int64_t>(1, table.head.max_active / input.shards);
  output.distinct_rows = kTypicalStep;
  return {std::move(op), HeadForwardReply{.output = std::move(output)}};
}

Exchange HeadBackwardOn(const PlanInput& input, const TableSpec& table) {
  const int64_t batch = input.spec.training.batch_size;
  HeadBackwardOp op;
  op.table = table.name;
  if (table.head.loss == HeadLoss::kSoftmax) op.log_partitions.assign(batch, 0.5f);
  op.scale = 0.5f;
  op.rectified = true;
  HeadBackwardReply reply{{.rows = batch,
                           .cols = table.dim,
                           .data = WithShare(input, table, ActiveShare(input)),
                           .sparse = true}};
  return {std::move(op), std::move(reply)};
}

RowBlock DenseRows(const TableSpec& table, int64_t rows) {
  RowBlock block;
  block.rows.assign(rows, RowId(0));
  block.dim = table.dim;
  block.values.assign(rows * table.dim, 0.5f);
  block.biases.assign(rows, 0.5f);
  return block;
}

absl::StatusOr<std::vector<Exchange>> ExchangesOfStep(const PlanInput& input) {
  std::vector<Exchange> exchanges;
  for (const TableSpec& table : input.spec.tables) {
    switch (table.role) {
      case TableRole::kEmbedding:
        exchanges.push_back(EmbedForwardOn(input, table));
        exchanges.push_back(EmbedBackwardOn(input, table));
        break;
      case TableRole::kHead:
        exchanges.push_back(HeadForwardOn(input, table));
        exchanges.push_back(HeadBackwardOn(input, table));
        break;
      case TableRole::kDense: {
        ASSIGN_OR_RETURN(const int64_t rows, MostRows(table, input.shards));
        exchanges.push_back(
            {DenseGatherOp{.table = table.name}, DenseGatherReply{.rows = DenseRows(table, rows)}});
        exchanges.push_back(
            {DenseScatterOp{.table = table.name, .gradients = DenseRows(table, rows)},
             DenseScatterReply{}});
        break;
      }
      case TableRole::kMemory:
      case TableRole::kLabelTrees:
      case TableRole::kLinear:
      case TableRole::kFusion:
        break;  // no part of a step of the network
    }
  }
  return exchanges;
}

int64_t Parameters(const ModelSpec& spec) {
  int64_t parameters = 0;
  for (const TableSpec& table : spec.tables) {
    if (IsRecordRole(table.role)) continue;
    parameters += table.rows * (table.dim + (table.role == TableRole::kEmbedding ? 0 : 1));
  }
  return parameters;
}

// The fewest shards, more than now, on which it fits; 0 when no number does.
absl::StatusOr<int64_t> ShardsThatFit(PlanInput input) {
  int64_t limit = kMaxShards;
  for (const TableSpec& table : input.spec.tables) limit = std::min(limit, table.num_slots);
  const int64_t memory = *input.memory_bytes;
  for (input.shards = input.shards + 1; input.shards <= limit; ++input.shards) {
    ASSIGN_OR_RETURN(const ShardPlan plan, PlanShard(input));
    if (plan.total() <= memory) return input.shards;
  }
  return 0;
}

struct Variant {
  RowPrecision precision;
  bool row_wise;
  const char* flags;
};
constexpr Variant kVariants[] = {
    {RowPrecision::kBf16Weights, false, "--precision bf16_weights"},
    {RowPrecision::kBf16, false, "--precision bf16"},
    {RowPrecision::kF32, true, "--optimizer row-wise-adagrad"},
    {RowPrecision::kBf16Weights, true, "--precision bf16_weights --optimizer row-wise-adagrad"},
};

absl::StatusOr<std::vector<std::string>> FindRemedies(const PlanInput& input) {
  std::vector<std::string> remedies;
  ASSIGN_OR_RETURN(const int64_t shards, ShardsThatFit(input));
  if (shards > 0) {
    remedies.push_back(
        absl::StrCat("use ", shards, " shards of this memory (--shards ", shards, ")"));
  }
  for (const Variant& variant : kVariants) {
    PlanInput changed = input;
    for (TableSpec& table : changed.spec.tables) {
      table.precision = variant.precision;
      if (variant.row_wise) table.optimizer.kind = OptimizerKind::kRowWiseAdagrad;
    }
    ASSIGN_OR_RETURN(const ShardPlan plan, PlanShard(changed));
    if (plan.total() > *input.memory_bytes) continue;
    remedies.push_back(absl::StrCat("use ", variant.flags, " (",
                                    FormatByteSize(plan.total() >> 20 << 20), " a shard)"));
    break;  // the mildest that is enough
  }
  if (remedies.empty()) {
    remedies.push_back("no number of shards of this memory holds it: give each shard more memory");
  }
  return remedies;
}

// All numbers of it travel, as they may in some step.
Reply WithAllNumbers(Reply reply) {
  if (auto* const embed = std::get_if<EmbedForwardReply>(&reply.body)) {
    embed->partial.sparse = false;
  } else if (auto* const head = std::get_if<HeadBackwardReply>(&reply.body)) {
    head->hidden_gradient.sparse = false;
  }
  return reply;
}

}  // namespace

int64_t ShardPlan::total() const {
  int64_t bytes = step_bytes + process_bytes;
  for (const TablePlan& table : tables) bytes += table.total();
  return bytes;
}

absl::StatusOr<WirePlan> PlanWire(const PlanInput& input) {
  WirePlan plan;
  ASSIGN_OR_RETURN(std::vector<Exchange> exchanges, ExchangesOfStep(input));
  if (exchanges.empty()) return plan;  // tables of records alone: no steps of a network
  const ActivationType type = input.spec.activations;
  for (Exchange& exchange : exchanges) {
    StepCommand command;
    command.envelope = {.job = absl::StrCat("train-", input.spec.name),
                        .client = {},
                        .sequence = kTypicalSequence,
                        .first_incomplete = kTypicalSequence - 1,
                        .generation = 1,
                        .topology_version = 1,
                        .model = input.spec.name};
    command.step = kTypicalStep;
    command.first_open_step = kTypicalStep - 1;
    command.op = std::move(exchange.request);
    const Reply reply{.status = absl::OkStatus(), .body = std::move(exchange.reply)};
    wire::StepFormat format = {.activations = type, .packed = true, .sparse = true};
    plan.request_bytes += wire::StepRequestBytes(command, format);
    plan.reply_bytes += wire::StepResponseBytes(kTypicalSequence, reply, type);
    format.sparse = false;
    plan.largest_message_bytes =
        std::max({plan.largest_message_bytes, wire::StepRequestBytes(command, format),
                  wire::StepResponseBytes(kTypicalSequence, WithAllNumbers(reply), type)});
  }
  plan.sendable_batch = input.spec.training.batch_size;
  if (plan.largest_message_bytes > wire::kMaxMessageBytes) {
    // What a message has beside its samples does not shrink with them.
    constexpr int64_t kBesideSamples = 4096;
    plan.sendable_batch =
        std::max<int64_t>(1, plan.sendable_batch * (wire::kMaxMessageBytes - kBesideSamples) /
                                 plan.largest_message_bytes);
  }
  const int64_t both = plan.request_bytes + plan.reply_bytes;
  plan.bytes_per_sample =
      static_cast<double>(both) / static_cast<double>(input.spec.training.batch_size);
  plan.step_bytes = both * input.shards;
  plan.dense_step_bytes = 2 * 4 * Parameters(input.spec);
  // Both directions move at once; the busier one is the limit.
  const double bytes_per_second = input.link_bits_per_second / 8.0;
  plan.max_steps_per_second =
      bytes_per_second /
      static_cast<double>(std::max(plan.request_bytes, plan.reply_bytes) * input.shards);
  plan.max_dense_steps_per_second =
      bytes_per_second / (static_cast<double>(plan.dense_step_bytes) / 2.0);
  return plan;
}

absl::StatusOr<ModelPlan> MakePlan(const PlanInput& input) {
  ModelPlan plan;
  plan.parameters = Parameters(input.spec);
  ASSIGN_OR_RETURN(plan.shard, PlanShard(input));
  plan.all_shards_bytes = plan.shard.total() * input.shards;
  ASSIGN_OR_RETURN(plan.wire, PlanWire(input));
  if (input.content.has_value()) {
    plan.records = PlanRecordTraining(input, plan.shard, plan.wire);
  }
  if (!input.memory_bytes.has_value()) return plan;
  plan.fits = plan.shard.total() <= *input.memory_bytes;
  if (!*plan.fits) {
    ASSIGN_OR_RETURN(plan.remedies, FindRemedies(input));
  }
  return plan;
}

}  // namespace dslide::cli
