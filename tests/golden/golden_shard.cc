#include "tests/golden/golden_shard.h"

#include <utility>

#include "absl/status/status.h"

namespace dslide::golden {
namespace {

constexpr int64_t kDim = 4;
constexpr int64_t kFeatures = 12;
constexpr int64_t kLabels = 16;
constexpr int64_t kSlots = 4;
constexpr int64_t kHiddenSlots = 2;
constexpr int64_t kHashTables = 4;
constexpr int64_t kBatch = 2;

SlotMap Slots(int64_t slots) { return *SlotMap::Deal(slots, {1.0, 1.0}); }

// Of those that shard 0 holds, every `stride`-th from `first` on.
std::vector<RowId> Held(int64_t rows, int64_t slots, size_t first, size_t stride) {
  const SlotMap map = Slots(slots);
  std::vector<RowId> held;
  for (uint32_t row = 0; row < static_cast<uint32_t>(rows); ++row) {
    if (map.OwnerOf(RowId(row)) == ShardId(0)) held.emplace_back(row);
  }
  std::vector<RowId> chosen;
  for (size_t i = first; i < held.size(); i += stride) chosen.push_back(held[i]);
  return chosen;
}

// Sixteenths between -1/2 and 1/2, which every precision holds exactly.
std::vector<float> Floats(int64_t count, int64_t from) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>((i * 37 + from * 5) % 17 - 8) / 16.0f);
  }
  return values;
}

RowBlock Block(std::vector<RowId> rows, int64_t from, bool with_bias) {
  RowBlock block;
  block.dim = kDim;
  block.values = Floats(static_cast<int64_t>(rows.size()) * kDim, from);
  if (with_bias) block.biases = Floats(static_cast<int64_t>(rows.size()), from + 1);
  block.rows = std::move(rows);
  return block;
}

// One client: its numbers, and its commands.
class Client {
 public:
  explicit Client(uint8_t number) {
    id_[0] = number;
    id_[15] = 0x80;
  }

  HelloCommand Hello(uint64_t acknowledged = 0) const {
    return {.job = "golden-job", .client = id_, .acknowledged_sequence = acknowledged};
  }
  CloseClientCommand CloseClient() const { return {.job = "golden-job", .client = id_}; }

  // The last two answers stay unacknowledged.
  Envelope Next() {
    ++sequence_;
    return {.job = "golden-job",
            .client = id_,
            .sequence = sequence_,
            .first_incomplete = sequence_ > 2 ? sequence_ - 2 : 1,
            .generation = 3,
            .topology_version = 1,
            .model = "golden"};
  }
  void set_sequence(uint64_t sequence) { sequence_ = sequence; }

  StepCommand Step(StepOp op, int64_t step) {
    return {.envelope = Next(), .step = step, .first_open_step = step - 1, .op = std::move(op)};
  }
  ScatterCommand Scatter(ScatterMode mode, const std::string& table, RowBlock rows) {
    return {.envelope = Next(), .table = table, .mode = mode, .rows = std::move(rows)};
  }

 private:
  ClientId id_ = {};
  uint64_t sequence_ = 0;
};

EmbedForwardOp EmbedForward(int64_t from) {
  EmbedForwardOp op{.table = "input", .offsets = {0}, .rows = {}, .values = {}};
  for (int64_t sample = 0; sample < kBatch; ++sample) {
    const auto rows = Held(kFeatures, kSlots, static_cast<size_t>((sample + from) % 3), 2);
    op.rows.insert(op.rows.end(), rows.begin(), rows.end());
    op.offsets.push_back(static_cast<uint32_t>(op.rows.size()));
  }
  op.values = Floats(static_cast<int64_t>(op.rows.size()), from + 3);
  return op;
}

HeadForwardOp HeadForward(int64_t from) {
  HeadForwardOp op;
  op.table = "head";
  op.dim = kDim;
  op.hidden = Floats(kBatch * kDim, from);
  op.label_offsets = {0};
  for (int64_t sample = 0; sample < kBatch; ++sample) {
    for (int64_t table = 0; table < kHashTables; ++table) {
      op.fingerprints.push_back(static_cast<uint32_t>((from + sample + table) % 8));
    }
    const auto rows = Held(kLabels, kSlots, static_cast<size_t>(sample + from) % 4, 5);
    op.labels.insert(op.labels.end(), rows.begin(), rows.end());
    op.label_offsets.push_back(static_cast<uint32_t>(op.labels.size()));
    op.label_targets.push_back(0.5f);
  }
  op.recall_samples = {0};
  return op;
}

// A whole step but for its end.
void Begin(Client& client, int64_t step, std::vector<Command>& commands) {
  commands.push_back(client.Step(EmbedForward(step), step));
  commands.push_back(client.Step(DenseGatherOp{.table = "hidden"}, step));
  commands.push_back(client.Step(HeadForward(step), step));
}
void End(Client& client, int64_t step, std::vector<Command>& commands) {
  commands.push_back(client.Step(
      HeadBackwardOp{.table = "head", .log_partitions = {3.0f, 2.5f}, .scale = 0.5f}, step));
  const auto hidden = Held(kDim, kHiddenSlots, 0, 1);
  commands.push_back(
      client.Step(DenseScatterOp{.table = "hidden", .gradients = Block(hidden, step, true)}, step));
  commands.push_back(client.Step(
      EmbedBackwardOp{.table = "input", .dim = kDim, .gradient = Floats(kBatch * kDim, step)},
      step));
}

constexpr uint8_t kTrainer = 1, kScatterer = 2, kUnlucky = 3, kGone = 4, kLast = 5;
// What the trainer has sent in the first half.
constexpr uint64_t kTrainerSent = 3 * 6 + 3 + 1;
constexpr int64_t kOpenStep = 4;

CreateModelCommand Create(const ModelSpec& spec) {
  return {.spec = spec,
          .shard = ShardId(0),
          .slot_maps = {Slots(kSlots), Slots(kHiddenSlots)},
          .topology_version = 1};
}

}  // namespace

ModelSpec GoldenModel() {
  ModelSpec spec;
  spec.name = "golden";
  spec.seed = 0x901d;
  spec.magnitude_bound = 64;
  TableSpec input;
  input.name = "input";
  input.role = TableRole::kEmbedding;
  input.rows = kFeatures;
  input.dim = kDim;
  input.num_slots = kSlots;
  input.precision = RowPrecision::kBf16;
  input.optimizer.kind = OptimizerKind::kAdam;
  input.optimizer.learning_rate = 0.125;
  TableSpec hidden;
  hidden.name = "hidden";
  hidden.role = TableRole::kDense;
  hidden.rows = kDim;
  hidden.dim = kDim;
  hidden.num_slots = kHiddenSlots;
  hidden.optimizer.kind = OptimizerKind::kRowWiseAdagrad;
  hidden.optimizer.learning_rate = 0.125;
  TableSpec head;
  head.name = "head";
  head.role = TableRole::kHead;
  head.rows = kLabels;
  head.dim = kDim;
  head.num_slots = kSlots;
  head.precision = RowPrecision::kBf16Weights;
  head.optimizer.kind = OptimizerKind::kAdagrad;
  head.optimizer.learning_rate = 0.25;
  head.head.max_active = 12;
  head.head.tail_rows = 2;
  head.head.hash.num_tables = kHashTables;
  head.head.hash.codes_per_table = 3;
  head.head.hash.rebuild_every_steps = 3;
  spec.tables = {input, hidden, head};
  return spec;
}

shard::CoreLimits GoldenLimits() {
  shard::CoreLimits limits;
  limits.clients.window = 16;
  limits.clients.max_clients = 8;
  limits.clients.idle_commands = 100;
  limits.clients.client_reply_bytes = 100'000;
  limits.clients.total_reply_bytes = 300'000;
  limits.clients.max_closed = 10;
  limits.clients.bad_requests = 7;
  limits.context_bytes = 200'000;
  limits.memory_bytes = 1'000'000;
  limits.max_models = 4;
  return limits;
}

std::vector<Command> FirstCommands() {
  Client trainer(kTrainer), scatterer(kScatterer), unlucky(kUnlucky), gone(kGone);
  std::vector<Command> commands = {
      SetOwnershipCommand{.shard = ShardId(0), .generation = 3, .topology_version = 1},
      Create(GoldenModel()), trainer.Hello(), scatterer.Hello()};
  for (int64_t step = 1; step < kOpenStep; ++step) {
    Begin(trainer, step, commands);
    End(trainer, step, commands);
  }
  commands.push_back(
      scatterer.Scatter(ScatterMode::kAdd, "head", Block(Held(kLabels, kSlots, 1, 2), 2, true)));
  // It had answers that this shard does not know.
  commands.push_back(unlucky.Hello(/*acknowledged=*/6));
  commands.push_back(gone.Hello());
  commands.push_back(gone.CloseClient());
  commands.push_back(RefusedCommand{.envelope = trainer.Next(),
                                    .refusal = absl::InvalidArgumentError("a golden refusal")});
  Begin(trainer, kOpenStep, commands);
  return commands;
}

std::vector<Command> LaterCommands() {
  Client trainer(kTrainer), scatterer(kScatterer), last(kLast);
  trainer.set_sequence(kTrainerSent);
  scatterer.set_sequence(1);
  std::vector<Command> commands;
  End(trainer, kOpenStep, commands);
  commands.push_back(scatterer.Scatter(ScatterMode::kAssign, "input",
                                       Block(Held(kFeatures, kSlots, 0, 2), 4, false)));
  commands.push_back(scatterer.Scatter(ScatterMode::kGradient, "head",
                                       Block(Held(kLabels, kSlots, 0, 3), 6, true)));
  ModelSpec other = GoldenModel();
  other.name = "other";
  commands.push_back(Create(other));
  commands.push_back(DropModelCommand{.model = "other"});
  commands.push_back(last.Hello());
  commands.push_back(RefusedCommand{
      .envelope = last.Next(), .refusal = absl::InvalidArgumentError("another golden refusal")});
  commands.push_back(last.CloseClient());
  Begin(trainer, kOpenStep + 1, commands);
  return commands;
}

std::vector<Command> ScatterToOneRow() {
  Client client(kLast + 1);
  return {client.Hello(),
          client.Scatter(ScatterMode::kAdd, "head", Block(Held(kLabels, kSlots, 2, 100), 1, true))};
}

std::vector<Command> OpenWeightedStep() {
  Client client(kLast + 2);
  HeadForwardOp op = HeadForward(1);
  op.fingerprints.clear();
  ExplicitRows<RowId>& named = op.explicit_rows;
  named.offsets = {0};
  for (size_t sample = 0; sample < kBatch; ++sample) {
    const auto rows = Held(kLabels, kSlots, sample, 3);
    named.rows.insert(named.rows.end(), rows.begin(), rows.end());
    named.offsets.push_back(static_cast<uint32_t>(named.rows.size()));
  }
  const auto count = static_cast<int64_t>(named.rows.size());
  named.logit_offsets = Floats(count, 2);
  for (int64_t i = 0; i < count; ++i) named.weights.push_back(static_cast<float>(i % 3));
  return {client.Hello(), client.Step(op, 1)};
}

std::vector<Command> AveragedCommands() {
  std::vector<Command> commands = FirstCommands();
  for (Command& command : commands) {
    if (auto* create = std::get_if<CreateModelCommand>(&command); create != nullptr) {
      for (TableSpec& table : create->spec.tables) table.optimizer.average_decay = 0.5;
    }
    auto* const step = std::get_if<StepCommand>(&command);
    auto* const head = step == nullptr ? nullptr : std::get_if<HeadForwardOp>(&step->op);
    for (size_t i = 0; head != nullptr && i < head->labels.size(); ++i) {
      head->label_weights.push_back(static_cast<float>(1 + i % 3) / 2.0f);
    }
  }
  return commands;
}

}  // namespace dslide::golden
