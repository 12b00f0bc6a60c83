#include "tests/simulation/layout.h"

namespace dslide::simulation {
namespace {

constexpr int64_t kSlots = 12;
constexpr int64_t kRowsOfShard = 72;
constexpr int64_t kLabels = 24;

ModelSpec SpecFor(int shards) {
  ModelSpec spec;
  spec.name = kModel;
  spec.seed = 11;
  TableSpec cells;
  cells.name = kCells;
  cells.role = TableRole::kEmbedding;
  cells.rows = kRowsOfShard * shards;
  cells.dim = kDim;
  cells.num_slots = kSlots;
  cells.init.kind = InitKind::kZero;
  cells.optimizer.kind = OptimizerKind::kSgd;
  cells.optimizer.learning_rate = 1.0;
  TableSpec head;
  head.name = kHead;
  head.role = TableRole::kHead;
  head.rows = kLabels;
  head.dim = kDim;
  head.num_slots = kSlots;
  head.optimizer.kind = OptimizerKind::kAdagrad;
  head.optimizer.learning_rate = 0.01;
  head.optimizer.average_decay = 0.9;
  head.head.max_active = 12;
  head.head.tail_rows = 0;
  head.head.hash.num_tables = 2;
  head.head.hash.codes_per_table = 3;
  head.head.hash.rebuild_every_steps = 3;
  head.head.recall_samples = 0;
  spec.tables = {cells, head};
  return spec;
}

}  // namespace

Layout::Layout(int shards)
    : spec_(SpecFor(shards)),
      slots_(*SlotMap::Deal(kSlots, std::vector<double>(static_cast<size_t>(shards), 1.0))) {
  for (int shard = 0; shard < shards; ++shard) {
    const ShardRows rows(slots_, ShardId(shard), spec_.tables[0].rows);
    Place& place = places_.emplace_back();
    for (int64_t i = 0; i < rows.num_rows(); ++i) {
      place.locals.emplace_back(static_cast<uint32_t>(i));
      place.rows.push_back(rows.ToGlobal(place.locals.back()));
    }
    const ShardRows labels(slots_, ShardId(shard), kLabels);
    labels_.push_back(labels.ToGlobal(LocalRow(0)));
  }
}

CreateModelCommand Layout::CreateOn(int shard) const {
  return {.spec = spec_, .shard = ShardId(shard), .slot_maps = {slots_}, .topology_version = 0};
}

std::optional<Cell> Layout::NextCell(int shard) {
  Place& place = places_[static_cast<size_t>(shard)];
  if (place.first_free >= place.rows.size()) return std::nullopt;
  const Cell cell{shard, place.rows[place.first_free], place.locals[place.first_free],
                  place.next_column};
  if (++place.next_column == kDim) {
    place.next_column = 0;
    ++place.first_free;
  }
  return cell;
}

std::optional<Cell> Layout::NextRow(int shard) {
  Place& place = places_[static_cast<size_t>(shard)];
  if (place.first_free + 1 >= place.rows.size()) return std::nullopt;
  const Cell cell{shard, place.rows.back(), place.locals.back(), 0};
  place.rows.pop_back();
  place.locals.pop_back();
  return cell;
}

float Layout::ValueIn(const shard::ShardCore& core, const Cell& cell) {
  const auto model = core.models().find(kModel);
  if (model == core.models().end()) return 0;
  return model->second->tables()[0].store().Weights(cell.local)[cell.column];
}

}  // namespace dslide::simulation
