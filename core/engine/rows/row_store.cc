#include "core/engine/rows/row_store.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "core/base/counter_rng.h"
#include "core/base/prefetch.h"
#include "core/base/status_macros.h"
#include "core/engine/math/kernels.h"
#include "core/engine/rows/aligned_floats.h"
#include "core/engine/rows/row_init.h"

namespace dslide {
namespace {

constexpr int64_t kLineFloats = 16;
// Rows that a thread takes at once when all rows are visited.
constexpr int64_t kRowsPerGrain = 1024;
constexpr uint64_t kRoundingPart = 0x40d;

int64_t RoundUpToLineFloats(int64_t floats) {
  return (floats + kLineFloats - 1) / kLineFloats * kLineFloats;
}

bool IsZero(absl::Span<const char> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char byte) { return byte == 0; });
}

// stored: at any address, as the bytes of a database are.
void Widen(const char* stored, bool is_short, int64_t n, float* out) {
  if (is_short && reinterpret_cast<uintptr_t>(stored) % alignof(BFloat16) != 0) {
    for (int64_t i = 0; i < n; ++i) {
      BFloat16 number;
      std::memcpy(&number, stored + i * sizeof(number), sizeof(number));
      out[i] = ToFloat(number);
    }
  } else if (is_short) {
    BFloat16ToFloats(reinterpret_cast<const BFloat16*>(stored), n, out);
  } else {
    std::memcpy(out, stored, n * sizeof(float));
  }
}

}  // namespace

// One thread's copy of a record: every vector and the tail widened to f32, `stride_` floats apart,
// and the shortened vectors of a bf16 table. What an update computes lands here first; the record
// changes only when all of it is good.
struct RowStore::Workspace {
  AlignedFloats memory;
  float* weights = nullptr;       // [stride]
  float* state = nullptr;         // [vectors, stride]
  float* tail = nullptr;          // [tail_floats]
  BFloat16* shortened = nullptr;  // [1 + vectors, stride]
  float* spare = nullptr;         // [2, stride]; for averages of bf16 tables
};

RowStore::Workspace& RowStore::ThreadWorkspace() const {
  thread_local Workspace work;
  const int64_t vectors = 1 + layout_.state.vectors;
  const int64_t tail = RoundUpToLineFloats(layout_.tail_floats);
  work.memory.Resize(vectors * stride_ + tail + vectors * stride_ / 2 + 2 * stride_);
  work.weights = work.memory.data();
  work.state = work.weights + stride_;
  work.tail = work.weights + vectors * stride_;
  work.shortened = reinterpret_cast<BFloat16*>(work.tail + tail);
  work.spare = work.tail + tail + vectors * stride_ / 2;
  return work;
}

RowStore::RowStore(const TableSpec& spec, uint64_t model_seed, ShardRows rows,
                   std::unique_ptr<Optimizer> optimizer)
    : StoredRows(std::move(rows)),
      optimizer_(std::move(optimizer)),
      average_(IsAveraged(spec) ? std::make_unique<RowAverage>(spec.optimizer.average_decay)
                                : nullptr),
      layout_(RowLayout::Of(spec)),
      stride_(RoundUpToLineFloats(spec.dim)),
      rounding_key_(DeriveKey(DeriveKey(model_seed, kRoundingPart), KeyOfName(spec.name))),
      init_(spec, model_seed),
      absent_(spec.role == TableRole::kHead ? RowStore::num_rows() : 0) {}

absl::StatusOr<std::unique_ptr<RowStore>> RowStore::Create(const TableSpec& spec,
                                                           uint64_t model_seed, ShardRows rows,
                                                           Parallelism parallelism) {
  ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer, Optimizer::Create(spec.optimizer));
  std::unique_ptr<RowStore> store(
      new RowStore(spec, model_seed, std::move(rows), std::move(optimizer)));
  const int64_t num_rows = store->num_rows();
  ASSIGN_OR_RETURN(store->buffer_,
                   AlignedBuffer::Create(BytesFor(spec, num_rows) / int64_t{sizeof(float)}));
  if (store->init_.is_zero()) return store;
  ParallelFor(parallelism, num_rows, kRowsPerGrain,
              [&](int64_t i, int) { store->FillFirst(LocalRow(static_cast<uint32_t>(i))); });
  return store;
}

void RowStore::FillFirst(LocalRow row) {
  char* const record = Record(row);
  const bool is_short = layout_.bf16_weights();
  float* const weights = is_short ? ThreadWorkspace().weights : reinterpret_cast<float*>(record);
  init_.Fill(rows().ToGlobal(row), absl::MakeSpan(weights, layout_.dim));
  if (is_short) FloatsToBFloat16(weights, layout_.dim, reinterpret_cast<BFloat16*>(record));
}

Step RowStore::LastStep(LocalRow row) const {
  uint32_t step;
  std::memcpy(&step, Tail(row) + layout_.tail_floats - 1, sizeof(step));
  return Step(step);
}

void RowStore::StoreLastStep(LocalRow row, Step step) {
  const uint32_t last_step = static_cast<uint32_t>(step.value());
  std::memcpy(Tail(row) + layout_.tail_floats - 1, &last_step, sizeof(last_step));
}

void RowStore::FailOnBf16Weights() const {
  const std::string precision(PrecisionName(layout_.precision));
  std::fprintf(stderr, "RowStore::Weights: the rows are stored as %s; use ReadWeights\n",
               precision.c_str());
  std::abort();
}

const float* RowStore::WidenWeights(LocalRow row, float* scratch) const {
  BFloat16ToFloats(reinterpret_cast<const BFloat16*>(Record(row)), layout_.dim, scratch);
  return scratch;
}

// Where an update reads: the record, and its widened copy for what is stored in bf16.
RowSource RowStore::SourceOf(const char* record, Workspace& work) const {
  RowSource source;
  source.weights = reinterpret_cast<const float*>(record);
  if (layout_.bf16_weights()) {
    Widen(record, true, layout_.dim, work.weights);
    source.weights = work.weights;
  }
  if (layout_.state.vectors > 0) {
    source.state = reinterpret_cast<const float*>(record + layout_.weight_bytes);
  }
  for (int64_t v = 0; layout_.bf16_state() && v < layout_.state.vectors; ++v) {
    Widen(record + layout_.weight_bytes + v * layout_.vector_bytes, true, layout_.dim,
          work.state + v * stride_);
    source.state = work.state;
  }
  const auto* const tail = reinterpret_cast<const float*>(record + layout_.tail_offset);
  if (layout_.has_bias) {
    source.bias = tail;
    source.bias_state = tail + 1;
  }
  if (layout_.state.row_floats > 0) source.row_state = tail + 1 + layout_.state.bias_floats;
  return source;
}

RowView RowStore::ViewOf(Workspace& work) const {
  RowView view;
  view.weights = work.weights;
  if (layout_.state.vectors > 0) view.state = work.state;
  if (layout_.has_bias) {
    view.bias = work.tail;
    view.bias_state = work.tail + 1;
  }
  if (layout_.state.row_floats > 0) view.row_state = work.tail + 1 + layout_.state.bias_floats;
  return view;
}

// Rounds weights that are stored in bf16. False when one passes the bound: rounding may go up.
bool RowStore::ShortenWeights(LocalRow row, const RowUpdate& update, bool to_nearest,
                              Workspace& work) const {
  if (!layout_.bf16_weights()) return true;
  if (to_nearest) {
    FloatsToBFloat16(work.weights, layout_.dim, work.shortened);
    float* const rounded = work.weights;
    BFloat16ToFloats(work.shortened, layout_.dim, rounded);
    return AllWithin(rounded, layout_.dim, update.magnitude_bound);
  }
  const RoundingKey key = RoundingKey::Of(RoundingBitsOf(row, update));
  return RoundToBFloat16(work.weights, layout_.dim, key, work.shortened) <= update.magnitude_bound;
}

// The same of state vectors.
void RowStore::ShortenState(LocalRow row, const RowUpdate& update, bool to_nearest,
                            Workspace& work) const {
  if (!layout_.bf16_state()) return;
  const uint64_t key = RoundingBitsOf(row, update);
  for (int64_t v = 1; v <= layout_.state.vectors; ++v) {
    const float* const vector = work.weights + v * stride_;
    BFloat16* const shortened = work.shortened + v * stride_;
    if (to_nearest) {
      FloatsToBFloat16(vector, layout_.dim, shortened);
    } else {
      RoundToBFloat16(vector, layout_.dim, RoundingKey::Of(key ^ Mix64(static_cast<uint64_t>(v))),
                      shortened);
    }
  }
}

uint64_t RowStore::RoundingBitsOf(LocalRow row, const RowUpdate& update) const {
  const uint64_t row_key = DeriveKey(rounding_key_, rows().ToGlobal(row).value());
  return CounterBits(row_key, static_cast<uint64_t>(update.factors.step.value()));
}

const float* RowStore::ReadLag(LocalRow row, float* scratch) const {
  const char* const lag = Record(row) + layout_.tail_offset - layout_.vector_bytes;
  if (!layout_.bf16_state()) return reinterpret_cast<const float*>(lag);
  Widen(lag, true, layout_.dim, scratch);
  return scratch;
}

void RowStore::MoveAverage(LocalRow row, const RowSource& from, Step step, Workspace& work) const {
  const RowAverage::LagFactors factors = average_->FactorsOf(LastStep(row), step);
  // The average is of the weights as they are stored. Their roundings would add up otherwise.
  const float* before = from.weights;
  const float* after = work.weights;
  if (layout_.bf16_weights()) {
    before = WidenWeights(row, work.spare);
    after = work.spare + stride_;
    BFloat16ToFloats(work.shortened, layout_.dim, work.spare + stride_);
  }
  const int64_t lag = (layout_.state.vectors - 1) * stride_;
  AverageLagUpdate({from.state + lag, work.state + lag}, before, after, layout_.dim, factors.keep,
                   factors.blend);
  if (!layout_.has_bias) return;
  const int64_t bias_lag = layout_.state.bias_floats - 1;
  const float moved =
      factors.keep * from.bias_state[bias_lag] + factors.blend * (*from.bias - work.tail[0]);
  work.tail[1 + bias_lag] = std::abs(moved) < FLT_MIN ? 0.0f : moved;
}

void RowStore::ReadAverage(LocalRow row, Step now, float* out) const {
  if (layout_.bf16_weights()) {
    WidenWeights(row, out);
  } else {
    std::memcpy(out, Record(row), layout_.dim * sizeof(float));
  }
  const float remaining = average_->Remaining(LastStep(row), now);
  if (remaining == 0.0f) return;
  Axpy(remaining, ReadLag(row, ThreadWorkspace().spare), out, layout_.dim);
}

float RowStore::AverageBias(LocalRow row, Step now) const {
  return Tail(row)[0] +
         average_->Remaining(LastStep(row), now) * Tail(row)[layout_.state.bias_floats];
}

// Writes weights, state and tail but for the last step. Padding is never touched: it stays 0.
void RowStore::Store(LocalRow row, const Workspace& work) {
  char* const record = Record(row);
  const int64_t dim = layout_.dim;
  if (layout_.bf16_weights()) {
    std::memcpy(record, work.shortened, dim * sizeof(BFloat16));
  } else {
    std::memcpy(record, work.weights, dim * sizeof(float));
  }
  for (int64_t v = 0; v < layout_.state.vectors; ++v) {
    char* const vector = record + layout_.weight_bytes + v * layout_.vector_bytes;
    if (layout_.bf16_state()) {
      std::memcpy(vector, work.shortened + (1 + v) * stride_, dim * sizeof(BFloat16));
    } else {
      std::memcpy(vector, work.state + v * stride_, dim * sizeof(float));
    }
  }
  std::memcpy(record + layout_.tail_offset, work.tail, (layout_.tail_floats - 1) * sizeof(float));
}

RowUpdate RowStore::BeginUpdate(Step step, float magnitude_bound,
                                std::optional<double> learning_rate) const {
  return {.factors = optimizer_->BeginStep(step, learning_rate),
          .magnitude_bound = magnitude_bound};
}

bool RowStore::ApplyGradient(LocalRow row, const float* gradient, float bias_gradient,
                             const RowUpdate& update) {
  if (IsAbsent(row)) return true;
  Preserve(row);
  Workspace& work = ThreadWorkspace();
  if (!layout_.has_bias) std::fill_n(work.tail, layout_.tail_floats - 1, 0.0f);
  const RowShape shape{
      .dim = layout_.dim, .stride = stride_, .magnitude_bound = update.magnitude_bound};
  const RowGradient change{.weights = gradient, .bias = bias_gradient, .last_step = LastStep(row)};
  const RowSource source = SourceOf(Record(row), work);
  if (!optimizer_->Apply(update.factors, shape, change, source, ViewOf(work)) ||
      !ShortenWeights(row, update, /*to_nearest=*/false, work)) {
    return false;
  }
  if (has_average()) MoveAverage(row, source, update.factors.step, work);
  ShortenState(row, update, /*to_nearest=*/false, work);
  Store(row, work);
  StoreLastStep(row, update.factors.step);
  return true;
}

// Rows of f32: touches nothing but what changes, and looks at it before it is stored.
bool RowStore::ChangeFloats(LocalRow row, Change change, const char* values, float bias,
                            float magnitude_bound) {
  const int64_t dim = layout_.dim;
  auto* const weights = reinterpret_cast<float*>(Record(row));
  float* const tail = Tail(row);
  const bool add = change == Change::kAdd;
  float new_bias = 0.0f;
  if (layout_.has_bias) new_bias = add ? tail[0] + bias : bias;
  if (!(std::abs(new_bias) <= magnitude_bound) ||
      !(add ? AddWithin(values, weights, dim, magnitude_bound)
            : MaxMagnitude(values, dim) <= std::min(magnitude_bound, FLT_MAX))) {
    return false;
  }
  if (layout_.has_bias) tail[0] = new_bias;
  if (add) return true;
  std::memcpy(weights, values, dim * sizeof(float));
  std::memset(Record(row) + layout_.weight_bytes, 0, layout_.tail_offset - layout_.weight_bytes);
  std::fill(tail + 1, tail + layout_.tail_floats - 1, 0.0f);
  return true;
}

bool RowStore::ChangeWeights(LocalRow row, Change change, const char* values, float bias,
                             const RowUpdate& update) {
  if (IsAbsent(row)) return true;
  Preserve(row);
  if (layout_.precision == RowPrecision::kF32) {
    return ChangeFloats(row, change, values, bias, update.magnitude_bound);
  }
  Workspace& work = ThreadWorkspace();
  const char* const record = Record(row);
  const bool assign = change == Change::kAssign;
  const int64_t dim = layout_.dim;
  std::fill_n(work.weights, work.tail + layout_.tail_floats - work.weights, 0.0f);
  bool good = true;
  if (assign) {
    std::memcpy(work.weights, values, dim * sizeof(float));
    good = AllWithin(work.weights, dim, update.magnitude_bound);
  } else {
    Widen(record, layout_.bf16_weights(), dim, work.weights);
    for (int64_t v = 0; v < layout_.state.vectors; ++v) {
      Widen(record + layout_.weight_bytes + v * layout_.vector_bytes, layout_.bf16_state(), dim,
            work.state + v * stride_);
    }
    std::copy_n(Tail(row), layout_.tail_floats - 1, work.tail);
    good = AddWithin(values, work.weights, dim, update.magnitude_bound);
  }
  if (layout_.has_bias) work.tail[0] += bias;
  // State is as it was and exact in bf16: rounding at random leaves it.
  if (!good || !AllWithin(work.tail, 1, update.magnitude_bound) ||
      !ShortenWeights(row, update, assign, work)) {
    return false;
  }
  ShortenState(row, update, assign, work);
  Store(row, work);
  return true;
}

absl::Status RowStore::CheckRecord(LocalRow row, absl::Span<const char> record,
                                   float magnitude_bound) const {
  const RowId global = rows().ToGlobal(row);
  if (static_cast<int64_t>(record.size()) != layout_.record_bytes) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "record of row %d has %d bytes, this table's records have %d; it comes from "
        "another dim, optimizer or precision",
        global.value(), record.size(), layout_.record_bytes));
  }
  Workspace& work = ThreadWorkspace();
  bool padding_is_zero = true;
  bool finite = true;
  for (int64_t v = 0; v < 1 + layout_.state.vectors; ++v) {
    const bool is_short = v == 0 ? layout_.bf16_weights() : layout_.bf16_state();
    const int64_t bytes = v == 0 ? layout_.weight_bytes : layout_.vector_bytes;
    const int64_t begin = v == 0 ? 0 : layout_.weight_bytes + (v - 1) * bytes;
    const int64_t used = layout_.dim * (is_short ? 2 : 4);
    Widen(record.data() + begin, is_short, layout_.dim, work.weights);
    finite = finite && AllWithin(work.weights, layout_.dim, v == 0 ? magnitude_bound : FLT_MAX);
    padding_is_zero = padding_is_zero && IsZero(record.subspan(begin + used, bytes - used));
  }
  // The last step is no number and not looked at.
  Widen(record.data() + layout_.tail_offset, false, layout_.tail_floats - 1, work.tail);
  finite = finite && AllWithin(work.tail, 1, magnitude_bound) &&
           AllWithin(work.tail + 1, layout_.tail_floats - 2, FLT_MAX);
  if (!finite) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "record of row %d has a weight or state that is not finite or a weight beyond %g",
        global.value(), magnitude_bound));
  }
  if (!padding_is_zero || !IsZero(record.subspan(layout_.tail_offset + 4 * layout_.tail_floats))) {
    return absl::InvalidArgumentError(
        absl::StrFormat("record of row %d has an unused byte that is not 0", global.value()));
  }
  return absl::OkStatus();
}

absl::Status RowStore::SetRecord(LocalRow row, absl::Span<const char> record,
                                 float magnitude_bound) {
  const bool absent = IsAbsent(row);
  if (absent && record.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckRecord(row, record, magnitude_bound));
  Preserve(row);
  if (absent) {
    absent_[row.value()] = 0;
    num_absent_.fetch_sub(1, std::memory_order_relaxed);
  }
  std::copy(record.begin(), record.end(), Record(row));
  return absl::OkStatus();
}

void RowStore::Prefetch(LocalRow row) const {
  const char* const record = Record(row);
  PrefetchLines(record, layout_.weight_bytes);
  if (layout_.has_bias) PrefetchLine(record + layout_.tail_offset);
}

void RowStore::PrefetchRecord(LocalRow row) const {
  PrefetchMark(row);
  const char* const record = Record(row);
  PrefetchLines(record, layout_.tail_offset);
  PrefetchLine(record + layout_.tail_offset);
}

void RowStore::PrefetchForAdd(LocalRow row) const {
  // Rows with bf16 in them are widened and stored as a whole.
  if (layout_.precision != RowPrecision::kF32) return PrefetchRecord(row);
  PrefetchMark(row);
  Prefetch(row);
}

int64_t RowStore::memory_bytes() const {
  return buffer_.size() * static_cast<int64_t>(sizeof(float));
}

}  // namespace dslide
