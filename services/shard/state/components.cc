#include "services/shard/state/components.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"
#include "core/base/status_macros.h"
#include "core/engine/fusion/fusion_record.h"
#include "core/engine/memory/point_record.h"
#include "services/shard/state/refusal.h"

namespace dslide::shard {
namespace {

// Part of the model's seed that the orders of points are drawn from.
constexpr uint64_t kSolveKey = 0x736f6c7665;
// Labels whose points are counted at once: their numbers fit into an answer.
constexpr int64_t kMostCounted = int64_t{1} << 18;
// Entries of the points' ages that are too few to be worth a clean-up.
constexpr int64_t kLeastAges = 1024;

absl::string_view BytesOfRecord(absl::Span<const char> record) {
  return {record.data(), record.size()};
}

absl::Status BadRecord(const RecordStore& store, LocalRow row, const absl::Status& why) {
  return absl::DataLossError(absl::StrCat("table \"", store.table(), "\", row ",
                                          store.rows().ToGlobal(row).value(), ": ", why.message()));
}

std::optional<TreeShape> ShapeOf(const ModelSpec& spec) {
  const TableSpec* const table = spec.FindRole(TableRole::kLabelTrees);
  if (table == nullptr) return std::nullopt;
  return ShapeOfTrees(spec.FindRole(TableRole::kMemory)->memory, table->trees);
}

NeighbourSearch SearchOf(const ModelSpec& spec) {
  const TableSpec* const table = spec.FindRole(TableRole::kMemory);
  if (table == nullptr) return NeighbourSearch::kExact;
  return ResolveSearch(table->memory.search, table->rows,
                       spec.training.transform != InputTransform::kRaw);
}

}  // namespace

Components::Components(ComponentTables tables, Parallelism parallelism)
    : tables_(tables),
      parallelism_(parallelism),
      shape_(ShapeOf(*tables.spec)),
      neighbours_(SearchOf(*tables.spec)),
      scratch_(static_cast<size_t>(parallelism.threads)),
      scorer_(parallelism) {}

RecordStore* Components::StoreOf(TableRole role) const {
  switch (role) {
    case TableRole::kMemory:
      return tables_.memory;
    case TableRole::kLabelTrees:
      return tables_.trees;
    case TableRole::kLinear:
      return tables_.linear;
    case TableRole::kFusion:
      return tables_.fusion;
    default:
      return nullptr;
  }
}

absl::StatusOr<RecordStore*> Components::Find(const std::string& name, TableRole role) const {
  const TableSpec* const table = tables_.spec->FindTable(name);
  if (table == nullptr) {
    return Refuse(reason::kUnknownTable,
                  absl::StrCat("model \"", tables_.spec->name, "\" has no table \"", name, "\""));
  }
  if (table->role == role) return StoreOf(role);
  return Refuse(reason::kWrongRole,
                absl::StrCat("table \"", name, "\" is of the role ", RoleName(table->role),
                             ", the operation is for the role ", RoleName(role)));
}

absl::StatusOr<RecordStore*> Components::FindWhole(const std::string& name, RowId row) const {
  const TableSpec* const table = tables_.spec->FindTable(name);
  const bool is_fusion = table != nullptr && table->role == TableRole::kFusion;
  ASSIGN_OR_RETURN(RecordStore* const store,
                   Find(name, is_fusion ? TableRole::kFusion : TableRole::kLabelTrees));
  if (row.value() < store->num_rows()) return store;
  return Refuse(reason::kBadRowId, absl::StrCat("row ", row.value(), ": table \"", name, "\" has ",
                                                store->num_rows(), " rows"));
}

PointView Components::PointAt(uint32_t row) const {
  const absl::Span<const char> record = tables_.memory->Record(LocalRow(row));
  return record.empty() ? PointView() : PointView(record.data());
}

void Components::Index(uint32_t row) {
  const PointView point = PointAt(row);
  if (point.num_features() > 0) {
    columns_ = std::max<int64_t>(columns_, int64_t{point.features().back().value()} + 1);
  }
  ages_.Add(row, point.time());
  if (next_number_ >= 0) next_number_ = std::max(next_number_, int64_t{point.number()} + 1);
  if (tables_.memory_slots->OwnerOf(RowId(row)) == tables_.shard) neighbours_.Add(row, point);
}

void Components::IndexAges() {
  ages_.Clear();
  for (int64_t row = 0; row < tables_.memory->num_rows(); ++row) {
    const PointView point = PointAt(static_cast<uint32_t>(row));
    if (point.present()) ages_.Add(static_cast<uint32_t>(row), point.time());
  }
}

int64_t Components::NextNumber() {
  if (next_number_ >= 0) return next_number_;
  // The point of the largest number has expired before others: rare, as streams have an order.
  next_number_ = 0;
  for (int64_t row = 0; row < tables_.memory->num_rows(); ++row) {
    const PointView point = PointAt(static_cast<uint32_t>(row));
    if (point.present()) next_number_ = std::max(next_number_, int64_t{point.number()} + 1);
  }
  return next_number_;
}

absl::Status Components::IndexMemory() {
  const RecordStore& memory = *tables_.memory;
  for (int64_t i = 0; i < memory.num_rows(); ++i) {
    const LocalRow row(static_cast<uint32_t>(i));
    const absl::Span<const char> record = memory.Record(row);
    if (record.empty()) continue;
    const absl::Status valid = CheckPointRecord(BytesOfRecord(record));
    if (!valid.ok()) return BadRecord(memory, row, valid);
    if (const uint32_t number = PointAt(row.value()).number(); number % memory.num_rows() != i) {
      return BadRecord(
          memory, row,
          absl::DataLossError(absl::StrCat("point ", number, " does not belong here")));
    }
    Index(row.value());
  }
  return absl::OkStatus();
}

void Components::PlacePoints(const RecordStore& from, RecordStore& to) {
  const auto number_of = [](const RecordStore& store, LocalRow row) {
    return int64_t{PointView(store.Record(row).data()).number()};
  };
  for (int64_t i = 0; i < from.num_rows(); ++i) {
    const LocalRow row(static_cast<uint32_t>(i));
    if (from.Record(row).empty()) continue;
    const int64_t number = number_of(from, row);
    const LocalRow place(static_cast<uint32_t>(number % to.num_rows()));
    if (!to.Record(place).empty() && number_of(to, place) > number) continue;
    to.Put(place, from.Record(row));
  }
}

absl::Status Components::Rebuild() {
  neighbours_.Clear();
  ages_.Clear();
  next_number_ = 0;
  training_ = nullptr;
  tree_ = nullptr;
  columns_ = 0;
  scorer_.Forget();
  if (tables_.memory != nullptr) RETURN_IF_ERROR(IndexMemory());
  for (int64_t i = 0; tables_.linear != nullptr && i < tables_.linear->num_rows(); ++i) {
    const LocalRow row(static_cast<uint32_t>(i));
    const absl::Span<const char> record = tables_.linear->Record(row);
    if (record.empty()) continue;
    const absl::Status valid = CheckSparseRowRecord(BytesOfRecord(record), kMaxTableRows);
    if (!valid.ok()) return BadRecord(*tables_.linear, row, valid);
    // Rows outlive the points that they were solved from.
    const absl::Span<const uint32_t> columns = SparseRowView(record.data()).columns();
    if (!columns.empty()) columns_ = std::max(columns_, int64_t{columns.back()} + 1);
  }
  return absl::OkStatus();
}

int64_t Components::BytesOf(const AppendPointsOp& op) {
  // Record and posting of each feature, record of each label, and what is kept for each point.
  constexpr int64_t kFeature = 6 + 12;
  constexpr int64_t kLabel = 4;
  constexpr int64_t kPoint = 96;
  return kFeature * static_cast<int64_t>(op.inputs.features.size()) +
         kLabel * static_cast<int64_t>(op.labels.size()) + kPoint * op.inputs.batch();
}

absl::StatusOr<std::vector<std::string>> Components::EncodeAppended(
    const AppendPointsOp& op) const {
  const int64_t labels = tables_.spec->FindTable(op.table)->memory.labels;
  std::vector<std::string> records(op.numbers.size());
  for (size_t i = 0; i < records.size(); ++i) {
    const PointStamp stamp = {.number = op.numbers[i], .time = op.times.empty() ? 0 : op.times[i]};
    const uint32_t first = op.label_offsets[i];
    const uint32_t last = op.label_offsets[i + 1];
    if (last > first && op.labels[last - 1].value() >= labels) {
      return Refuse(reason::kBadRowId,
                    absl::StrCat("point ", stamp.number, " has label ", op.labels[last - 1].value(),
                                 ": table \"", op.table, "\" has ", labels, " labels"));
    }
    if (stamp.time < op.expire_before) continue;
    const auto at = static_cast<int64_t>(i);
    records[i] = EncodePoint(op.inputs.FeaturesOf(at), op.inputs.ValuesOf(at),
                             absl::MakeConstSpan(op.labels).subspan(first, last - first), stamp);
    const LocalRow row(static_cast<uint32_t>(stamp.number % tables_.memory->num_rows()));
    const PointView present = PointAt(row.value());
    if (!present.present() || present.number() != stamp.number) continue;
    if (present.time() < op.expire_before) continue;
    if (BytesOfRecord(tables_.memory->Record(row)) != records[i]) {
      return Refuse(reason::kBadRowId,
                    absl::StrCat("point ", stamp.number, " is in table \"", op.table,
                                 "\" with another content: points never change; give new ones new "
                                 "numbers"));
    }
  }
  return records;
}

void Components::RemovePoint(uint32_t row) {
  neighbours_.Remove(row);
  tables_.memory->Erase(LocalRow(row));
  tree_ = nullptr;
  training_ = nullptr;
}

void Components::RemoveOlderThan(uint32_t time) {
  while (const std::optional<uint32_t> row = ages_.PopOlderThan(time)) {
    const PointView point = PointAt(*row);
    // A younger one may have taken its place.
    if (!point.present() || point.time() >= time) continue;
    if (int64_t{point.number()} + 1 == next_number_) next_number_ = -1;
    RemovePoint(*row);
  }
}

void Components::AddPoint(const std::string& record) {
  const uint32_t number = PointView(record.data()).number();
  const auto row = static_cast<uint32_t>(number % tables_.memory->num_rows());
  const PointView present = PointAt(row);
  // It is there, or would have been forgotten by now.
  if (present.present() && present.number() >= number) return;
  if (present.present()) RemovePoint(row);
  tables_.memory->Put(LocalRow(row), record);
  Index(row);
  tree_ = nullptr;
  training_ = nullptr;
}

absl::StatusOr<AppendPointsReply> Components::AppendPoints(const AppendPointsOp& op) {
  ASSIGN_OR_RETURN(const RecordStore* const memory, Find(op.table, TableRole::kMemory));
  ASSIGN_OR_RETURN(const std::vector<std::string> records, EncodeAppended(op));
  RemoveOlderThan(op.expire_before);
  for (const std::string& record : records) {
    if (!record.empty()) AddPoint(record);
  }
  // Points that were replaced leave entries behind: as many as there are points, at most.
  if (ages_.entries() > 2 * memory->present() + kLeastAges) IndexAges();
  return AppendPointsReply{.points = memory->present(), .next = NextNumber()};
}

absl::Status Components::CheckPiece(const PutRecordOp& op) const {
  const auto [tree, piece] = shape_->PieceAt(op.row);
  if (!shape_->FitsPiece(piece, op.record.size())) {
    return Refuse(reason::kBadSize,
                  absl::StrCat("row ", op.row.value(), " of table \"", op.table, "\" has ",
                               shape_->PieceSize(piece), " labels of 4 bytes, the record ",
                               op.record.size(), " bytes"));
  }
  const auto size = static_cast<int64_t>(op.record.size() / 4);
  for (int64_t i = 0; tree < shape_->trees() && i < size; ++i) {
    uint32_t leaf;
    std::memcpy(&leaf, op.record.data() + 4 * i, sizeof(leaf));
    if (leaf != kNoLeaf && leaf >= shape_->leaves()) {
      return Refuse(reason::kOutOfRange,
                    absl::StrCat("a label hangs at leaf ", leaf, ", the tree has ",
                                 shape_->leaves(), " leaves"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<PutRecordReply> Components::PutRecord(const PutRecordOp& op) {
  ASSIGN_OR_RETURN(RecordStore* const store, FindWhole(op.table, op.row));
  if (store == tables_.fusion) {
    const absl::Status valid = DecodeFusion(op.record).status();
    if (!valid.ok()) return Refuse(reason::kBadSize, valid.message());
  } else {
    RETURN_IF_ERROR(CheckPiece(op));
    tree_ = nullptr;
  }
  store->Put(LocalRow(op.row.value()), op.record);
  return PutRecordReply{};
}

absl::StatusOr<GetRecordReply> Components::GetRecord(const GetRecordOp& op) const {
  ASSIGN_OR_RETURN(const RecordStore* const store, FindWhole(op.table, op.row));
  return GetRecordReply{.record =
                            std::string(BytesOfRecord(store->Record(LocalRow(op.row.value()))))};
}

absl::StatusOr<std::vector<uint32_t>> Components::LeavesOf(int64_t tree) const {
  std::vector<uint32_t> leaves(static_cast<size_t>(shape_->labels()), kNoLeaf);
  for (int64_t piece = 0; piece < shape_->pieces(); ++piece) {
    const RowId row = shape_->PieceRow(tree, piece);
    const absl::Span<const char> record = tables_.trees->Record(LocalRow(row.value()));
    if (!shape_->FitsPiece(piece, record.size())) {
      return Refuse(reason::kOutOfRange,
                    absl::StrCat("tree ", tree, " is not there yet: put row ", row.value(),
                                 " of table \"", tables_.trees->table(), "\" first"));
    }
    if (record.empty()) continue;
    std::memcpy(leaves.data() + piece * TreeShape::kPieceLabels, record.data(), record.size());
  }
  return leaves;
}

const TrainingPoints& Components::Training() {
  if (training_ == nullptr) {
    std::vector<PointView> points(static_cast<size_t>(tables_.memory->num_rows()));
    for (size_t row = 0; row < points.size(); ++row) {
      points[row] = PointAt(static_cast<uint32_t>(row));
    }
    training_ = std::make_unique<TrainingPoints>(std::move(points), shape_->labels());
  }
  return *training_;
}

absl::StatusOr<const TreePoints*> Components::TreeOf(int64_t tree) {
  if (tree_ == nullptr || tree_number_ != tree) {
    ASSIGN_OR_RETURN(leaves_, LeavesOf(tree));
    tree_ = std::make_unique<TreePoints>(Training(), *shape_, leaves_);
    tree_number_ = tree;
  }
  return tree_.get();
}

absl::Status Components::CheckSolve(const SolveRowsOp& op) const {
  if (op.count_points && (op.tree != -1 || op.count > kMostCounted)) {
    return Refuse(
        reason::kOutOfRange,
        absl::StrCat("count_points for tree ", op.tree, " and count ", op.count,
                     ": points are counted with centroids, of ", kMostCounted, " labels at most"));
  }
  if (op.tree < -1 || op.tree >= shape_->trees()) {
    return Refuse(reason::kOutOfRange,
                  absl::StrCat("tree ", op.tree, " of ", shape_->trees(), " trees"));
  }
  if (op.tree >= 0 && (op.level < 0 || op.level > shape_->label_level())) {
    return Refuse(reason::kOutOfRange, absl::StrCat("level ", op.level, ", must be in [0, ",
                                                    shape_->label_level(), "]"));
  }
  const int64_t end = op.tree < 0 ? shape_->labels() : shape_->ParentsAt(op.level);
  if (op.first >= 0 && op.count >= 1 && op.first <= end - op.count) return absl::OkStatus();
  return Refuse(reason::kOutOfRange, absl::StrCat("first ", op.first, " and count ", op.count,
                                                  " do not lie in [0, ", end, ")"));
}

absl::StatusOr<SolveRowsReply> Components::SolveRows(const SolveRowsOp& op) {
  ASSIGN_OR_RETURN(RecordStore* const store, Find(op.table, TableRole::kLinear));
  RETURN_IF_ERROR(CheckSolve(op));
  const ShardRows& rows = store->rows();
  const auto mine = [&](RowId row) { return rows.Holds(row); };
  std::vector<MadeRow> made;
  if (op.tree < 0) {
    made = MakeCentroids(Training(), *shape_, op.first, op.first + op.count, mine, parallelism_);
  } else {
    const LinearSpec& linear = tables_.spec->FindTable(op.table)->linear;
    ASSIGN_OR_RETURN(const TreePoints* const tree, TreeOf(op.tree));
    made = tree->Solve(
        op.tree, op.level, op.first, op.first + op.count, mine,
        {.cost = linear.cost,
         .passes = linear.passes,
         .drop_below = static_cast<float>(linear.drop_below)},
        DeriveKey(DeriveKey(tables_.spec->seed, kSolveKey), static_cast<uint64_t>(op.tree)),
        parallelism_);
  }
  SolveRowsReply reply;
  scorer_.Forget();
  for (const MadeRow& row : made) {
    store->Put(rows.ToLocal(row.row), row.record);
    // Its points were forgotten, or it never had any.
    if (row.record.empty()) continue;
    ++reply.rows;
    reply.entries += SparseRowView(row.record.data()).entries();
  }
  for (int64_t label = op.first; op.count_points && label < op.first + op.count; ++label) {
    const size_t points = Training().by_label().Of(label).size();
    reply.label_points.push_back(static_cast<uint32_t>(points));
  }
  return reply;
}

absl::StatusOr<FindNeighboursReply> Components::FindNeighbours(const FindNeighboursOp& op,
                                                               int64_t max_reply_bytes) const {
  ASSIGN_OR_RETURN(const RecordStore* const memory, Find(op.table, TableRole::kMemory));
  if (op.known_points > memory->num_rows()) {
    return Refuse(reason::kOutOfRange,
                  absl::StrCat("find_neighbours.known_points is ", op.known_points, ", table \"",
                               op.table, "\" has ", memory->num_rows(),
                               " rows: send at most those, or 0 for the labels of all"));
  }
  const int64_t batch = op.inputs.batch();
  std::vector<std::vector<Neighbour>> found(static_cast<size_t>(batch));
  ParallelFor(parallelism_, batch, 1, [&](int64_t i, int thread) {
    const auto at = static_cast<size_t>(i);
    const uint32_t left_out = op.left_out.empty() ? NeighbourIndex::kNobody : op.left_out[at];
    const absl::Span<const Neighbour> mine =
        neighbours_.Search(op.inputs.FeaturesOf(i), op.inputs.ValuesOf(i), op.k, left_out,
                           scratch_[static_cast<size_t>(thread)]);
    found[at].assign(mine.begin(), mine.end());
  });
  FindNeighboursReply reply;
  reply.labels_left_out = op.known_points > 0;
  reply.label_offsets = {0};
  // Records lie anywhere in memory, and so do the pointers to them.
  constexpr size_t kAhead = 8;
  constexpr int64_t kBytesOfMost = 192;
  for (const std::vector<Neighbour>& mine : found) {
    reply.counts.push_back(static_cast<uint32_t>(mine.size()));
    for (size_t i = 0; i < mine.size(); ++i) {
      if (i + 2 * kAhead < mine.size()) {
        tables_.memory->PrefetchPlace(LocalRow(mine[i + 2 * kAhead].point));
        tables_.memory->PrefetchRecord(LocalRow(mine[i + kAhead].point), kBytesOfMost);
      }
      const Neighbour& neighbour = mine[i];
      const PointView point = PointAt(neighbour.point);
      reply.labels_left_out &= point.number() < op.known_points;
      const absl::Span<const RowId> labels = point.labels();
      reply.points.push_back(RowId(neighbour.point));
      reply.similarities.push_back(neighbour.similarity);
      reply.labels.insert(reply.labels.end(), labels.begin(), labels.end());
      reply.label_offsets.push_back(static_cast<uint32_t>(reply.labels.size()));
    }
  }
  if (reply.labels_left_out) {
    reply.labels.clear();
    reply.label_offsets = {0};
  }
  // Packed labels have at most five bytes, as have their numbers.
  const auto bytes = static_cast<int64_t>(4 * reply.counts.size() + 13 * reply.points.size() +
                                          5 * reply.labels.size());
  if (bytes > max_reply_bytes) {
    return Refuse(reason::kTooLarge,
                  absl::StrCat("the neighbours of ", batch, " samples need ", bytes, " bytes, ",
                               max_reply_bytes, " fit into an answer: send fewer samples"));
  }
  return reply;
}

absl::StatusOr<std::vector<LocalRow>> Components::FindLinear(const ScoreRowsOp& op) const {
  ASSIGN_OR_RETURN(const RecordStore* const store, Find(op.table, TableRole::kLinear));
  std::vector<LocalRow> locals;
  locals.reserve(op.rows.size());
  for (const RowId row : op.rows) {
    if (row.value() >= store->rows().table_rows() || !store->rows().Holds(row)) {
      return Refuse(reason::kForeignRow,
                    absl::StrCat("row ", row.value(), " of table \"", op.table,
                                 "\" is not on this shard: ask again with the newest slot map"));
    }
    locals.push_back(store->rows().ToLocal(row));
  }
  return locals;
}

absl::StatusOr<ScoreRowsReply> Components::ScoreRows(const ScoreRowsOp& op, int64_t room) {
  ASSIGN_OR_RETURN(const std::vector<LocalRow> rows, FindLinear(op));
  ScoreRowsReply reply;
  reply.scores.resize(rows.size());
  std::vector<TableScorer::Asked> samples;
  for (int64_t i = 0; i < op.inputs.batch(); ++i) {
    const size_t first = op.row_offsets[static_cast<size_t>(i)];
    const size_t count = op.row_offsets[static_cast<size_t>(i) + 1] - first;
    samples.push_back({.features = op.inputs.FeaturesOf(i),
                       .values = op.inputs.ValuesOf(i),
                       .rows = absl::MakeConstSpan(rows).subspan(first, count),
                       .scores = absl::MakeSpan(reply.scores).subspan(first, count)});
  }
  scorer_.Keep(*tables_.linear, columns_, op.inputs.batch(), room);
  scorer_.Score(*tables_.linear, columns_, samples);
  return reply;
}

int64_t Components::memory_bytes() const {
  int64_t bytes = neighbours_.memory_bytes() + ages_.memory_bytes();
  if (training_ != nullptr) bytes += training_->by_label().memory_bytes();
  return bytes;
}

}  // namespace dslide::shard
