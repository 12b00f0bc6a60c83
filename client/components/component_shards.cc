#include "client/components/component_shards.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace dslide {
namespace {

// Operations under way to each shard while something is written: enough to keep it busy, few enough
// that none waits for long.
constexpr size_t kQueuedPerShard = 4;

bool Nearer(const LabelledNeighbour& a, const LabelledNeighbour& b) {
  return a.similarity != b.similarity ? a.similarity > b.similarity : a.point < b.point;
}

absl::Span<const RowId> LabelsAt(const FindNeighboursReply& reply, size_t neighbour) {
  const uint32_t first = reply.label_offsets[neighbour];
  return absl::MakeConstSpan(reply.labels)
      .subspan(first, reply.label_offsets[neighbour + 1] - first);
}

}  // namespace

SparseInputs InputsOf(const SparseBatch& samples) {
  SparseInputs inputs;
  inputs.offsets.assign(samples.feature_offsets.begin(), samples.feature_offsets.end());
  inputs.features = samples.features;
  inputs.values = samples.values;
  return inputs;
}

absl::StatusOr<FoundNeighbours> FoundNeighbours::Merge(std::vector<FindNeighboursReply> replies,
                                                       int64_t k, const PointLabels* known) {
  FoundNeighbours merged;
  merged.replies_ = std::move(replies);
  const int64_t known_points = known == nullptr ? 0 : known->points();
  for (size_t shard = 0; shard < merged.replies_.size(); ++shard) {
    const FindNeighboursReply& reply = merged.replies_[shard];
    for (const RowId point : reply.points) {
      if (!reply.labels_left_out || point.value() < known_points) continue;
      return absl::InternalError(absl::StrCat("shard ", shard, " left out the labels of point ",
                                              point.value(), "; only ", known_points,
                                              " points are known here"));
    }
    merged.by_sample_.resize(std::max(merged.by_sample_.size(), reply.counts.size()));
    size_t at = 0;
    for (size_t sample = 0; sample < reply.counts.size(); ++sample) {
      std::vector<LabelledNeighbour>& mine = merged.by_sample_[sample];
      const auto before = static_cast<std::ptrdiff_t>(mine.size());
      for (uint32_t i = 0; i < reply.counts[sample]; ++i, ++at) {
        const uint32_t point = reply.points[at].value();
        mine.push_back({.point = point,
                        .similarity = reply.similarities[at],
                        .labels = reply.labels_left_out ? known->Of(point) : LabelsAt(reply, at)});
      }
      // Each shard has its nearest first.
      std::inplace_merge(mine.begin(), mine.begin() + before, mine.end(), Nearer);
      if (static_cast<int64_t>(mine.size()) > k) mine.resize(static_cast<size_t>(k));
    }
  }
  return merged;
}

ComponentShards::ComponentShards(const ComponentTables& tables, std::vector<StepChannel*> shards,
                                 const SlotMap& memory_slots, const SlotMap* linear_slots,
                                 int64_t* next_step)
    : tables_(tables),
      shards_(std::move(shards)),
      memory_slots_(memory_slots),
      linear_slots_(linear_slots),
      next_step_(next_step) {}

void ComponentShards::Rebind(std::vector<StepChannel*> shards) {
  queued_.clear();
  shards_ = std::move(shards);
}

std::shared_ptr<PendingStep> ComponentShards::Send(size_t shard, StepOp op) {
  const int64_t step = (*next_step_)++;
  return shards_[shard]->Send(step, step, std::move(op));
}

absl::Status ComponentShards::Annotate(size_t shard, const absl::Status& status) const {
  absl::Status named(status.code(), absl::StrCat("shard ", shard, ": ", status.message()));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { named.SetPayload(url, payload); });
  return named;
}

template <typename T>
absl::StatusOr<T> ComponentShards::Take(size_t shard, PendingStep& pending) const {
  absl::StatusOr<ReplyBody> body = pending.Take();
  if (!body.ok()) return Annotate(shard, body.status());
  T* const reply = std::get_if<T>(&*body);
  if (reply == nullptr) return absl::InternalError("a shard answered another operation");
  return std::move(*reply);
}

absl::Status ComponentShards::AwaitBelow(size_t most) {
  while (queued_.size() >= most) {
    const Queued oldest = std::move(queued_.front());
    queued_.pop_front();
    const absl::StatusOr<ReplyBody> body = oldest.pending->Take();
    if (!body.ok()) return Annotate(oldest.shard, body.status());
    if (const auto* solved = std::get_if<SolveRowsReply>(&*body)) entries_ += solved->entries;
  }
  return absl::OkStatus();
}

absl::Status ComponentShards::Finish() { return AwaitBelow(1); }

AppendPointsOp ComponentShards::SelectPoints(size_t shard, absl::Span<const int64_t> numbers,
                                             const SparseBatch& points,
                                             const PointTimes& times) const {
  AppendPointsOp op;
  op.table = tables_.memory->name;
  op.expire_before = times.expire_before;
  op.inputs.offsets = {0};
  op.label_offsets = {0};
  for (int64_t i = 0; i < points.samples(); ++i) {
    const int64_t number = numbers[static_cast<size_t>(i)];
    const RowId row(static_cast<uint32_t>(number % tables_.memory->rows));
    const bool owned = memory_slots_.OwnerOf(row).value() == static_cast<int32_t>(shard);
    // Rows are solved from all points.
    if (tables_.linear == nullptr && !owned) continue;
    const absl::Span<const RowId> features = points.FeaturesOf(i);
    const absl::Span<const float> values = points.ValuesOf(i);
    const absl::Span<const RowId> labels = points.LabelsOf(i);
    op.numbers.push_back(static_cast<uint32_t>(number));
    if (!times.of_points.empty()) op.times.push_back(times.of_points[static_cast<size_t>(i)]);
    op.inputs.features.insert(op.inputs.features.end(), features.begin(), features.end());
    op.inputs.values.insert(op.inputs.values.end(), values.begin(), values.end());
    op.inputs.offsets.push_back(static_cast<uint32_t>(op.inputs.features.size()));
    op.labels.insert(op.labels.end(), labels.begin(), labels.end());
    op.label_offsets.push_back(static_cast<uint32_t>(op.labels.size()));
  }
  return op;
}

absl::Status ComponentShards::AppendPoints(absl::Span<const int64_t> numbers,
                                           const SparseBatch& points, const PointTimes& times) {
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    AppendPointsOp op = SelectPoints(shard, numbers, points, times);
    if (op.numbers.empty() && op.expire_before == 0) continue;
    queued_.push_back({shard, Send(shard, std::move(op))});
  }
  return AwaitBelow(kQueuedPerShard * shards_.size());
}

absl::StatusOr<AppendPointsReply> ComponentShards::CountPoints() {
  std::vector<std::shared_ptr<PendingStep>> pending;
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    pending.push_back(Send(shard, SelectPoints(shard, {}, SparseBatch(), {})));
  }
  AppendPointsReply all;
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    ASSIGN_OR_RETURN(const AppendPointsReply mine, Take<AppendPointsReply>(shard, *pending[shard]));
    // Shards that solve rows have all points.
    all.points =
        tables_.linear == nullptr ? all.points + mine.points : std::max(all.points, mine.points);
    all.next = std::max(all.next, mine.next);
  }
  return all;
}

absl::Status ComponentShards::PutRecord(const TableSpec& table, RowId row,
                                        const std::string& record) {
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    queued_.push_back(
        {shard, Send(shard, PutRecordOp{.table = table.name, .row = row, .record = record})});
  }
  return AwaitBelow(kQueuedPerShard * shards_.size());
}

absl::Status ComponentShards::PutNumbers(int64_t tree, absl::Span<const uint32_t> numbers) {
  const TreeShape& shape = *tables_.shape;
  for (int64_t piece = 0; piece < shape.pieces(); ++piece) {
    std::string record(static_cast<size_t>(4 * shape.PieceSize(piece)), '\0');
    std::memcpy(record.data(), numbers.data() + piece * TreeShape::kPieceLabels, record.size());
    RETURN_IF_ERROR(PutRecord(*tables_.trees, shape.PieceRow(tree, piece), record));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint32_t>> ComponentShards::GetNumbers(int64_t tree) {
  const TreeShape& shape = *tables_.shape;
  std::vector<uint32_t> numbers(static_cast<size_t>(shape.labels()),
                                tree == shape.trees() ? 0 : kNoLeaf);
  for (int64_t piece = 0; piece < shape.pieces(); ++piece) {
    ASSIGN_OR_RETURN(const std::string record,
                     GetRecord(*tables_.trees, shape.PieceRow(tree, piece)));
    // It may have grown since this client read its spec.
    const size_t known = std::min(record.size(), static_cast<size_t>(4 * shape.PieceSize(piece)));
    if (!shape.FitsPiece(piece, known)) {
      return absl::FailedPreconditionError(
          "the model has no label trees yet: its training did not come to its end; train it again");
    }
    if (known == 0) continue;
    std::memcpy(numbers.data() + piece * TreeShape::kPieceLabels, record.data(), known);
  }
  return numbers;
}

absl::StatusOr<std::vector<uint32_t>> ComponentShards::SolveAndCountCentroids(int64_t first,
                                                                              int64_t count) {
  std::vector<std::shared_ptr<PendingStep>> pending;
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    // Every shard that solves rows has all points, so one can say.
    pending.push_back(Send(shard, SolveRowsOp{.table = tables_.linear->name,
                                              .tree = -1,
                                              .first = first,
                                              .count = count,
                                              .count_points = shard == 0}));
  }
  std::vector<uint32_t> points;
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    ASSIGN_OR_RETURN(SolveRowsReply reply, Take<SolveRowsReply>(shard, *pending[shard]));
    entries_ += reply.entries;
    if (shard == 0) points = std::move(reply.label_points);
  }
  if (static_cast<int64_t>(points.size()) == count) return points;
  return absl::InternalError(
      absl::StrCat("shard 0 counted the points of ", points.size(), " labels, not of ", count));
}

absl::Status ComponentShards::SolveRows(int64_t tree, int64_t level, int64_t first, int64_t count) {
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    queued_.push_back({shard, Send(shard, SolveRowsOp{.table = tables_.linear->name,
                                                      .tree = tree,
                                                      .level = level,
                                                      .first = first,
                                                      .count = count})});
  }
  return AwaitBelow(kQueuedPerShard * shards_.size());
}

absl::StatusOr<std::string> ComponentShards::GetRecord(const TableSpec& table, RowId row) {
  const auto pending = Send(0, GetRecordOp{.table = table.name, .row = row});
  ASSIGN_OR_RETURN(GetRecordReply reply, Take<GetRecordReply>(0, *pending));
  return std::move(reply.record);
}

absl::StatusOr<FoundNeighbours> ComponentShards::FindNeighbours(
    const SparseInputs& inputs, int64_t k, const std::vector<uint32_t>& left_out,
    const PointLabels* known) {
  std::vector<std::shared_ptr<PendingStep>> pending;
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    pending.push_back(
        Send(shard, FindNeighboursOp{.table = tables_.memory->name,
                                     .inputs = inputs,
                                     .k = k,
                                     .left_out = left_out,
                                     .known_points = known == nullptr ? 0 : known->points()}));
  }
  std::vector<FindNeighboursReply> replies;
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    ASSIGN_OR_RETURN(FindNeighboursReply reply, Take<FindNeighboursReply>(shard, *pending[shard]));
    replies.push_back(std::move(reply));
  }
  return FoundNeighbours::Merge(std::move(replies), k, known);
}

absl::StatusOr<std::vector<float>> ComponentShards::ScoreRows(
    const SparseInputs& inputs, absl::Span<const uint32_t> row_offsets,
    absl::Span<const RowId> rows) {
  std::vector<uint32_t> owners;
  owners.reserve(rows.size());
  std::vector<ScoreRowsOp> ops(shards_.size());
  for (ScoreRowsOp& op : ops) {
    op.table = tables_.linear->name;
    op.inputs = inputs;
    op.row_offsets = {0};
    op.rows.reserve(rows.size());
  }
  for (size_t sample = 0; sample + 1 < row_offsets.size(); ++sample) {
    for (uint32_t i = row_offsets[sample]; i < row_offsets[sample + 1]; ++i) {
      const auto owner = static_cast<uint32_t>(linear_slots_->OwnerOf(rows[i]).value());
      owners.push_back(owner);
      ops[owner].rows.push_back(rows[i]);
    }
    for (ScoreRowsOp& op : ops) op.row_offsets.push_back(static_cast<uint32_t>(op.rows.size()));
  }
  std::vector<std::shared_ptr<PendingStep>> pending;  // by shard; null: not asked
  for (size_t shard = 0; shard < shards_.size(); ++shard) {
    pending.push_back(ops[shard].rows.empty() ? nullptr : Send(shard, std::move(ops[shard])));
  }
  std::vector<std::vector<float>> parts(pending.size());
  for (size_t shard = 0; shard < parts.size(); ++shard) {
    if (pending[shard] == nullptr) continue;
    ASSIGN_OR_RETURN(ScoreRowsReply reply, Take<ScoreRowsReply>(shard, *pending[shard]));
    parts[shard] = std::move(reply.scores);
  }
  std::vector<float> scores;
  scores.reserve(owners.size());
  std::vector<size_t> next(parts.size());
  for (const uint32_t shard : owners) {
    if (next[shard] >= parts[shard].size()) {
      return absl::InternalError(absl::StrCat("shard ", shard, " scored fewer rows than asked"));
    }
    scores.push_back(parts[shard][next[shard]++]);
  }
  return scores;
}

}  // namespace dslide
