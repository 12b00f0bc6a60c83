// Reading, changing and scoring rows by id.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/bfloat16.h"
#include "core/base/status_macros.h"
#include "core/engine/math/kernels.h"
#include "core/engine/rows/aligned_floats.h"
#include "core/wire/arrays/array_codec.h"
#include "services/shard/state/refusal.h"
#include "services/shard/state/shard_model.h"

namespace dslide::shard {
namespace {

constexpr int64_t kRowsPerGrain = 512;
// Fewer rows than these stay on one thread: they are copied in a millisecond or two, about as long
// as OpenMP's threads spin after the loop while the transport wants the CPUs.
constexpr int64_t kSerialRows = 16384;
// Rows are in random places: they are asked for so many rows before they are needed.
constexpr int64_t kRowsAhead = 8;
// Values to scatter lie one row after the other but for the borders of pages and messages.
constexpr int64_t kValuesAhead = 4;
// Ids that one gather by fingerprint may answer: they travel in one message.
constexpr int64_t kMaxSelectedIds = 900'000;

// One row of aligned floats for each thread.
std::vector<AlignedFloats> ThreadRows(Parallelism parallelism, int64_t floats) {
  std::vector<AlignedFloats> rows(std::max(1, parallelism.threads));
  for (AlignedFloats& row : rows) row.Resize(floats);
  return rows;
}

// Where a block has the values of each row, as ChangeRows() asks for them.
auto ValuesOf(const RowBlock& block) {
  return [&block](int64_t i, float* /*scratch*/) {
    return reinterpret_cast<const char*>(block.values.data() + i * block.dim);
  };
}

// `widened`: [stride], scratch.
void ReadChunk(const RowReader& reader, absl::Span<const RowId> rows,
               absl::Span<const LocalRow> locals, ActivationType type, const RowChunk& to,
               float* widened) {
  const int64_t dim = reader.store().dim();
  const auto n = static_cast<int64_t>(locals.size());
  const bool halves = type == ActivationType::kBf16;
  const int64_t row_bytes = dim * static_cast<int64_t>(halves ? sizeof(BFloat16) : sizeof(float));
  std::memcpy(to.ids, rows.data(), rows.size() * sizeof(RowId));
  for (int64_t i = 0; i < n; ++i) {
    if (i + kRowsAhead < n) reader.Prefetch(locals[i + kRowsAhead]);
    const float* const weights = reader.Weights(locals[i], widened);
    if (halves) {
      FloatsToBFloat16(weights, dim, reinterpret_cast<BFloat16*>(to.values + i * row_bytes));
    } else {
      std::memcpy(to.values + i * row_bytes, weights, row_bytes);
    }
    if (to.biases == nullptr) continue;
    const float bias = reader.Bias(locals[i]);
    std::memcpy(to.biases + i * sizeof(float), &bias, sizeof(float));
  }
}

}  // namespace

Parallelism ShardModel::ForRows(int64_t rows) const {
  return rows < kSerialRows ? Parallelism{.threads = 1} : parallelism_;
}

absl::Status ShardModel::CheckRowShape(const ShardTable& table, int64_t rows, int64_t dim,
                                       size_t biases) const {
  if (dim != table.spec.dim) {
    return Refuse(reason::kWrongDim, absl::StrCat("the request has ", dim, " columns, table \"",
                                                  table.spec.name, "\" has ", table.spec.dim));
  }
  const bool has_bias = table.store().has_bias();
  if (biases == static_cast<size_t>(has_bias ? rows : 0)) return absl::OkStatus();
  return Refuse(reason::kWrongBiases, absl::StrCat("the request has ", biases, " biases for ", rows,
                                                   " rows, rows of table \"", table.spec.name,
                                                   "\" have ", has_bias ? "one each" : "none"));
}

absl::Status ShardModel::CheckRows(const ShardTable& table, const RowBlock& block) const {
  const auto n = static_cast<int64_t>(block.rows.size());
  if (n == 0) return absl::OkStatus();
  RETURN_IF_ERROR(CheckRowShape(table, n, block.dim, block.biases.size()));
  if (static_cast<int64_t>(block.values.size()) != n * block.dim) {
    return Refuse(reason::kBadSize, absl::StrCat("the request has ", block.values.size(),
                                                 " values for ", n, " rows of ", block.dim));
  }
  for (int64_t i = 1; i < n; ++i) {
    if (block.rows[i] <= block.rows[i - 1]) {
      return Refuse(reason::kNotAscending, "row_ids must be strictly ascending");
    }
  }
  RETURN_IF_ERROR(CheckMagnitude("values", block.values));
  return CheckMagnitude("biases", block.biases);
}

absl::Status ShardModel::CheckReceived(const ShardTable& table,
                                       const ReceivedRows& received) const {
  const auto n = static_cast<int64_t>(received.rows.size());
  if (n == 0) return absl::OkStatus();
  RETURN_IF_ERROR(CheckRowShape(table, n, received.dim, received.biases.size()));
  // Ids ascend and numbers are finite: they were decoded so. Their magnitudes are known.
  if (received.max_bias > bound_) RETURN_IF_ERROR(CheckMagnitude("biases", received.biases));
  if (received.max_value <= bound_) return absl::OkStatus();
  return CheckMagnitude("values", received.ToBlock().values);
}

RowBlock ShardModel::ReadRows(const RowReader& reader, std::vector<RowId> rows,
                              absl::Span<const LocalRow> locals) const {
  const RowStore& store = reader.store();
  const auto n = static_cast<int64_t>(rows.size());
  const int64_t dim = store.dim();
  RowBlock block;
  block.rows = std::move(rows);
  block.dim = dim;
  block.values.resize(n * dim);
  if (store.has_bias()) block.biases.resize(n);
  std::vector<AlignedFloats> widened = ThreadRows(parallelism_, store.stride());
  ParallelFor(ForRows(n), n, kRowsPerGrain, [&](int64_t i, int thread) {
    if (i + kRowsAhead < n) reader.Prefetch(locals[i + kRowsAhead]);
    std::memcpy(block.values.data() + i * dim, reader.Weights(locals[i], widened[thread].data()),
                dim * sizeof(float));
    if (store.has_bias()) block.biases[i] = reader.Bias(locals[i]);
  });
  return block;
}

void ShardModel::ReadInto(const RowReader& reader, absl::Span<const RowId> rows,
                          absl::Span<const LocalRow> locals, const RowChunks& to,
                          RowSink& sink) const {
  const auto n = static_cast<int64_t>(locals.size());
  std::vector<AlignedFloats> widened = ThreadRows(parallelism_, reader.store().stride());
  const auto chunks = static_cast<int64_t>(to.chunks.size());
  ParallelFor(ForRows(n), chunks, /*grain=*/1, [&](int64_t index, int thread) {
    const int64_t first = index * to.rows_per_chunk;
    const int64_t count = std::min(to.rows_per_chunk, n - first);
    ReadChunk(reader, rows.subspan(first, count), locals.subspan(first, count), to.type,
              to.chunks[index], widened[thread].data());
    sink.Filled(static_cast<size_t>(index));
  });
}

absl::Status ShardModel::Deliver(const GatherCommand& command, const ShardTable& table,
                                 std::vector<RowId> rows, GatherReply& reply) const {
  ASSIGN_OR_RETURN(const std::vector<LocalRow> locals, ToLocal(table, rows));
  const RowReader reader = table.Reader(command.averaged);
  if (command.sink == nullptr) {
    reply.rows = ReadRows(reader, std::move(rows), locals);
    return absl::OkStatus();
  }
  const RowStore& store = table.store();
  reply.rows.dim = store.dim();
  ASSIGN_OR_RETURN(const RowChunks* const chunks,
                   command.sink->Begin(static_cast<int64_t>(rows.size()), store.has_bias(), reply));
  ReadInto(reader, rows, locals, *chunks, *command.sink);
  return absl::OkStatus();
}

template <typename RowOf>
void ShardModel::ChangeRows(ShardTable& table, ScatterMode mode, LearningRate rate,
                            absl::Span<const float> biases, absl::Span<const LocalRow> locals,
                            const RowOf& row_of) {
  RowStore& store = table.store();
  const int64_t dim = store.dim();
  const auto n = static_cast<int64_t>(locals.size());
  const RowUpdate update = store.BeginUpdate(Step(table.applied().value() + 1), bound_, rate);
  const auto change =
      mode == ScatterMode::kAdd ? RowStore::Change::kAdd : RowStore::Change::kAssign;
  // The optimizer wants its gradient on a 64-byte boundary.
  std::vector<AlignedFloats> gradients = ThreadRows(parallelism_, store.stride());
  std::atomic<int64_t> rejected = 0;
  ParallelFor(ForRows(n), n, kRowsPerGrain, [&](int64_t i, int thread) {
    if (i + kRowsAhead < n) {
      const LocalRow ahead = locals[i + kRowsAhead];
      mode == ScatterMode::kAdd ? store.PrefetchForAdd(ahead) : store.PrefetchRecord(ahead);
    }
    float* const scratch = gradients[thread].data();
    const char* const values = row_of(i, scratch);
    const float bias = biases.empty() ? 0.0f : biases[i];
    bool good = false;
    if (mode == ScatterMode::kGradient) {
      if (values != reinterpret_cast<const char*>(scratch)) {
        std::memcpy(scratch, values, dim * sizeof(float));
      }
      good = store.ApplyGradient(locals[i], scratch, bias, update);
    } else {
      good = store.ChangeWeights(locals[i], change, values, bias, update);
    }
    if (!good) rejected.fetch_add(1, std::memory_order_relaxed);
  });
  counters_.rejected_rows += rejected.load();
  if (table.head != nullptr) table.head->MarkDirty(locals);
  table.AdvanceStep(parallelism_);
}

void ShardModel::ApplyGradients(ShardTable& table, const RowBlock& block, LearningRate rate,
                                absl::Span<const LocalRow> locals) {
  ChangeRows(table, ScatterMode::kGradient, rate, block.biases, locals, ValuesOf(block));
  CountUpdate(table);
}

absl::StatusOr<ScatterReply> ShardModel::Scatter(const ScatterCommand& command) {
  ASSIGN_OR_RETURN(const ShardTable* const found, FindFloats(command.table));
  auto& table = const_cast<ShardTable&>(*found);
  const ReceivedRows* const received = command.received.get();
  RETURN_IF_ERROR(received == nullptr ? CheckRows(table, command.rows)
                                      : CheckReceived(table, *received));
  ASSIGN_OR_RETURN(const std::vector<LocalRow> locals, ToLocal(table, command.row_ids()));
  RETURN_IF_ERROR(CheckRate(table.spec, command.learning_rate));
  if (command.learning_rate.has_value() && command.mode != ScatterMode::kGradient) {
    return Refuse(reason::kOutOfRange, "learning_rate is there, but the values are no gradients");
  }
  if (received == nullptr) {
    const RowBlock& block = command.rows;
    ChangeRows(table, command.mode, command.learning_rate, block.biases, locals, ValuesOf(block));
  } else {
    const auto row_of = [&](int64_t i, float* scratch) {
      received->Prefetch(i + kValuesAhead);
      return received->Row(i, scratch);
    };
    ChangeRows(table, command.mode, command.learning_rate, received->biases, locals, row_of);
  }
  if (command.mode == ScatterMode::kGradient) CountUpdate(table);
  return ScatterReply{.applied_steps = table.applied().value()};
}

absl::StatusOr<GatherReply> ShardModel::Gather(const GatherCommand& command) const {
  ASSIGN_OR_RETURN(const ShardTable* const table, FindFloats(command.table));
  if (command.by_fingerprint) return GatherByFingerprint(command, *table);
  const auto n = static_cast<int64_t>(command.rows.size());
  if (n * 4 * (table->spec.dim + 2) > limits_.max_gather_bytes) {
    return Refuse(reason::kOverLimit,
                  absl::StrCat(n, " rows of ", table->spec.dim, " numbers are more than ",
                               limits_.max_gather_bytes, " bytes: ask for fewer rows"));
  }
  GatherReply reply;
  RETURN_IF_ERROR(Deliver(command, *table, command.rows, reply));
  return reply;
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
  RETURN_IF_ERROR(Deliver(command, table, std::move(distinct), reply));
  return reply;
}

absl::StatusOr<TopKReply> ShardModel::TopK(TopKCommand command, int64_t room) const {
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
  TopKReply reply;
  reply.k = command.k;
  if (!command.candidates.empty()) {
    ASSIGN_OR_RETURN(const ExplicitRows<LocalRow> candidates,
                     ToLocal(*table, std::move(command.candidates), command.batch, "candidate"));
    reply.given = true;
    reply.scored = CandidateTopK(table->Reader(/*averaged=*/true), command.hidden, candidates,
                                 command.k, parallelism_, table->head->left_out());
    return reply;
  }
  // A head without tables answers a hashed request exactly.
  const bool hashed = command.hashed && table->head->index() != nullptr;
  if (hashed) {
    RETURN_IF_ERROR(table->CheckFingerprints(command.fingerprints, command.batch));
  }
  reply.scored = table->head->TopK(
      command.hidden, command.batch, command.k,
      hashed ? absl::MakeConstSpan(command.fingerprints) : absl::Span<const uint32_t>(),
      parallelism_, command.budget, room);
  return reply;
}

}  // namespace dslide::shard
