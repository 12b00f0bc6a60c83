// Reading, changing and scoring rows by id.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/model/aligned_floats.h"
#include "core/wire/array_codec.h"
#include "services/shard/refusal.h"
#include "services/shard/shard_model.h"

namespace dslide::shard {
namespace {

constexpr int64_t kRowsPerGrain = 256;
// Ids that one gather by fingerprint may answer: they travel in one message.
constexpr int64_t kMaxSelectedIds = 900'000;

}  // namespace

absl::Status ShardModel::CheckRows(const ShardTable& table, const RowBlock& block) const {
  const auto n = static_cast<int64_t>(block.rows.size());
  const bool has_bias = table.store().has_bias();
  if (n == 0) return absl::OkStatus();
  if (block.dim != table.spec.dim) {
    return Refuse(reason::kWrongDim,
                  absl::StrCat("the request has ", block.dim, " columns, table \"", table.spec.name,
                               "\" has ", table.spec.dim));
  }
  if (static_cast<int64_t>(block.values.size()) != n * block.dim) {
    return Refuse(reason::kBadSize, absl::StrCat("the request has ", block.values.size(),
                                                 " values for ", n, " rows of ", block.dim));
  }
  if (static_cast<int64_t>(block.biases.size()) != (has_bias ? n : 0)) {
    return Refuse(reason::kWrongBiases,
                  absl::StrCat("the request has ", block.biases.size(), " biases for ", n,
                               " rows, rows of table \"", table.spec.name, "\" have ",
                               has_bias ? "one each" : "none"));
  }
  for (int64_t i = 1; i < n; ++i) {
    if (block.rows[i] <= block.rows[i - 1]) {
      return Refuse(reason::kNotAscending, "row_ids must be strictly ascending");
    }
  }
  RETURN_IF_ERROR(CheckMagnitude("values", block.values));
  return CheckMagnitude("biases", block.biases);
}

RowBlock ShardModel::ReadRows(const ShardTable& table, std::vector<RowId> rows,
                              absl::Span<const LocalRow> locals) const {
  const RowStore& store = table.store();
  const auto n = static_cast<int64_t>(rows.size());
  const int64_t dim = store.dim();
  RowBlock block;
  block.rows = std::move(rows);
  block.dim = dim;
  block.values.resize(n * dim);
  if (store.has_bias()) block.biases.resize(n);
  constexpr int64_t kAhead = 8;
  std::vector<AlignedFloats> widened(std::max(1, parallelism_.threads));
  for (AlignedFloats& row : widened) row.Resize(store.stride());
  ParallelFor(parallelism_, n, kRowsPerGrain, [&](int64_t i, int thread) {
    if (i + kAhead < n) store.Prefetch(locals[i + kAhead]);
    std::memcpy(block.values.data() + i * dim, store.ReadWeights(locals[i], widened[thread].data()),
                dim * sizeof(float));
    if (store.has_bias()) block.biases[i] = store.Bias(locals[i]);
  });
  return block;
}

void ShardModel::ApplyGradients(ShardTable& table, const RowBlock& block,
                                absl::Span<const LocalRow> locals) {
  RowStore& store = table.store();
  const int64_t dim = store.dim();
  const RowUpdate update = store.BeginUpdate(Step(table.applied().value() + 1), bound_);
  // The optimizer wants its gradient on a 64-byte boundary.
  std::vector<AlignedFloats> gradients(std::max(1, parallelism_.threads));
  for (AlignedFloats& gradient : gradients) gradient.Resize(store.stride());
  constexpr int64_t kAhead = 2;
  const auto n = static_cast<int64_t>(locals.size());
  std::atomic<int64_t> rejected = 0;
  ParallelFor(parallelism_, n, kRowsPerGrain, [&](int64_t i, int thread) {
    if (i + kAhead < n) store.PrefetchRecord(locals[i + kAhead]);
    float* const gradient = gradients[thread].data();
    std::memcpy(gradient, block.values.data() + i * dim, dim * sizeof(float));
    const float bias = block.biases.empty() ? 0.0f : block.biases[i];
    if (!store.ApplyGradient(locals[i], gradient, bias, update)) {
      rejected.fetch_add(1, std::memory_order_relaxed);
    }
  });
  counters_.rejected_rows += rejected.load();
  if (table.head != nullptr) table.head->MarkDirty(locals);
  table.AdvanceStep(parallelism_);
  CountUpdate(table);
}

absl::StatusOr<ScatterReply> ShardModel::Scatter(const ScatterCommand& command) {
  ASSIGN_OR_RETURN(const ShardTable* const found, Find(command.table));
  auto& table = const_cast<ShardTable&>(*found);
  const RowBlock& block = command.rows;
  RETURN_IF_ERROR(CheckRows(table, block));
  ASSIGN_OR_RETURN(const std::vector<LocalRow> locals, ToLocal(table, block.rows));
  if (command.mode == ScatterMode::kGradient) {
    ApplyGradients(table, block, locals);
    return ScatterReply{.applied_steps = table.applied().value()};
  }
  RowStore& store = table.store();
  const int64_t dim = store.dim();
  const auto change =
      command.mode == ScatterMode::kAdd ? RowStore::Change::kAdd : RowStore::Change::kAssign;
  const RowUpdate update = store.BeginUpdate(Step(table.applied().value() + 1), bound_);
  std::atomic<int64_t> rejected = 0;
  ParallelFor(
      parallelism_, static_cast<int64_t>(locals.size()), kRowsPerGrain, [&](int64_t i, int) {
        const float bias = block.biases.empty() ? 0.0f : block.biases[i];
        if (!store.ChangeWeights(locals[i], change, block.values.data() + i * dim, bias, update)) {
          rejected.fetch_add(1, std::memory_order_relaxed);
        }
      });
  counters_.rejected_rows += rejected.load();
  if (table.head != nullptr) table.head->MarkDirty(locals);
  table.AdvanceStep(parallelism_);
  return ScatterReply{.applied_steps = table.applied().value()};
}

absl::StatusOr<GatherReply> ShardModel::Gather(const GatherCommand& command) const {
  ASSIGN_OR_RETURN(const ShardTable* const table, Find(command.table));
  if (command.by_fingerprint) return GatherByFingerprint(command, *table);
  const auto n = static_cast<int64_t>(command.rows.size());
  if (n * 4 * (table->spec.dim + 2) > limits_.max_gather_bytes) {
    return Refuse(reason::kOverLimit,
                  absl::StrCat(n, " rows of ", table->spec.dim, " numbers are more than ",
                               limits_.max_gather_bytes, " bytes: ask for fewer rows"));
  }
  ASSIGN_OR_RETURN(const std::vector<LocalRow> locals, ToLocal(*table, command.rows));
  return GatherReply{
      .rows = ReadRows(*table, command.rows, locals), .sample_offsets = {}, .sample_rows = {}};
}

absl::StatusOr<GatherReply> ShardModel::GatherByFingerprint(const GatherCommand& command,
                                                            const ShardTable& table) const {
  ASSIGN_OR_RETURN(const ShardTable* const head, FindRole(command.table, TableRole::kHead));
  RETURN_IF_ERROR(head->CheckFingerprints(command.fingerprints, command.batch));
  const RowStore& store = table.store();
  if (head->head->index() == nullptr && command.batch * store.num_rows() > kMaxSelectedIds) {
    return Refuse(reason::kOverLimit, "every row is active in this head: gather by row id");
  }
  const HeadTable::Candidates selected =
      head->head->Select(command.fingerprints, command.batch, command.max_active, parallelism_);
  if (static_cast<int64_t>(selected.rows.size()) > kMaxSelectedIds) {
    return Refuse(reason::kOverLimit,
                  absl::StrCat(command.batch, " samples select ", selected.rows.size(),
                               " rows in all, ", kMaxSelectedIds,
                               " fit into an answer: send fewer samples or lower max_active"));
  }
  GatherReply reply;
  reply.sample_offsets = selected.offsets;
  reply.sample_rows.reserve(selected.rows.size());
  for (const LocalRow row : selected.rows) reply.sample_rows.push_back(store.rows().ToGlobal(row));
  for (size_t sample = 0; sample + 1 < selected.offsets.size(); ++sample) {
    std::sort(reply.sample_rows.begin() + selected.offsets[sample],
              reply.sample_rows.begin() + selected.offsets[sample + 1]);
  }
  std::vector<RowId> distinct = reply.sample_rows;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  if (static_cast<int64_t>(distinct.size()) * 4 * (store.dim() + 2) > limits_.max_gather_bytes) {
    return Refuse(reason::kOverLimit,
                  absl::StrCat("the ", distinct.size(), " selected rows are more than ",
                               limits_.max_gather_bytes, " bytes: send fewer samples"));
  }
  ASSIGN_OR_RETURN(const std::vector<LocalRow> locals, ToLocal(table, distinct));
  reply.rows = ReadRows(table, std::move(distinct), locals);
  return reply;
}

absl::StatusOr<TopKReply> ShardModel::TopK(const TopKCommand& command) const {
  ASSIGN_OR_RETURN(const ShardTable* const table, FindRole(command.table, TableRole::kHead));
  if (command.dim != table->spec.dim) {
    return Refuse(reason::kWrongDim,
                  absl::StrCat("the queries have ", command.dim, " columns, table \"",
                               command.table, "\" has ", table->spec.dim));
  }
  if (static_cast<int64_t>(command.hidden.size()) != command.batch * command.dim || command.k < 1) {
    return Refuse(reason::kBadSize, "queries and k do not fit together");
  }
  RETURN_IF_ERROR(CheckMagnitude("hidden", command.hidden));
  // A head without tables answers a hashed request exactly.
  const bool hashed = command.hashed && table->head->index() != nullptr;
  if (hashed) {
    RETURN_IF_ERROR(table->CheckFingerprints(command.fingerprints, command.batch));
  }
  TopKReply reply;
  reply.k = command.k;
  reply.scored = table->head->TopK(
      command.hidden, command.batch, command.k,
      hashed ? absl::MakeConstSpan(command.fingerprints) : absl::Span<const uint32_t>(),
      parallelism_);
  return reply;
}

}  // namespace dslide::shard
