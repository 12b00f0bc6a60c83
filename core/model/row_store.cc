#include "core/model/row_store.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "core/base/counter_rng.h"
#include "core/base/status_macros.h"
#include "core/math/kernels.h"
#include "core/model/row_init.h"

namespace dslide {
namespace {

constexpr int64_t kLineFloats = 16;
// Rows that a thread takes at once when all rows are visited.
constexpr int64_t kRowsPerGrain = 1024;
// A hint brings at most so much; the CPU's own prefetcher follows the rest of a long row.
constexpr int64_t kMaxPrefetchFloats = 64 * kLineFloats;

int64_t RoundUpToLine(int64_t floats) {
  return (floats + kLineFloats - 1) / kLineFloats * kLineFloats;
}

// A 64-bit hash of a record. Each word goes through a bijection of the running value, so one
// changed word always changes the result.
uint64_t HashRecord(RowId row, const float* record, int64_t floats) {
  constexpr uint64_t kMultiplier = 0x9fb21c651e98df25ULL;
  uint64_t lanes[4] = {row.value(), 1, 2, 3};
  for (int64_t i = 0; i < floats; i += 8) {  // records are whole lines
    uint64_t words[4];
    std::memcpy(words, record + i, sizeof(words));
    for (int lane = 0; lane < 4; ++lane) {
      lanes[lane] = std::rotl(lanes[lane] ^ words[lane], 27) * kMultiplier;
    }
  }
  uint64_t hash = 0;
  for (const uint64_t lane : lanes) hash = Mix64(hash + lane);
  return hash;
}

// Memory for one record on the calling thread: the old one, to put it back when an update is
// refused, or the new one until it is accepted.
float* ScratchRecord(int64_t floats) {
  thread_local std::vector<float> record;
  if (static_cast<int64_t>(record.size()) < floats) record.resize(floats);
  return record.data();
}

}  // namespace

RowStore::RowStore(const TableSpec& spec, ShardRows rows, std::unique_ptr<Optimizer> optimizer)
    : rows_(std::move(rows)),
      optimizer_(std::move(optimizer)),
      dim_(spec.dim),
      has_bias_(spec.role != TableRole::kEmbedding),
      stride_(RoundUpToLine(spec.dim)),
      tail_offset_(stride_ * (1 + optimizer_->state_vectors())),
      tail_used_(1 + optimizer_->bias_state_floats() + optimizer_->row_state_floats() + 1),
      record_floats_(tail_offset_ + RoundUpToLine(tail_used_)) {}

absl::StatusOr<std::unique_ptr<RowStore>> RowStore::Create(const TableSpec& spec,
                                                           uint64_t model_seed, ShardRows rows,
                                                           Parallelism parallelism) {
  ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer, Optimizer::Create(spec.optimizer));
  std::unique_ptr<RowStore> store(new RowStore(spec, std::move(rows), std::move(optimizer)));
  const int64_t num_rows = store->num_rows();
  ASSIGN_OR_RETURN(store->buffer_, AlignedBuffer::Create(num_rows * store->record_floats_));
  const RowInit init(spec, model_seed);
  if (!init.is_zero()) {
    ParallelFor(parallelism, num_rows, kRowsPerGrain, [&](int64_t i, int) {
      const LocalRow row(static_cast<uint32_t>(i));
      init.Fill(store->rows_.ToGlobal(row), absl::MakeSpan(store->Record(row), store->dim_));
    });
  }
  return store;
}

Step RowStore::LastStep(LocalRow row) const {
  uint32_t step;
  std::memcpy(&step, Record(row) + tail_offset_ + tail_used_ - 1, sizeof(step));
  return Step(step);
}

absl::Span<const float> RowStore::RecordSpan(LocalRow row) const {
  return {Record(row), static_cast<size_t>(record_floats_)};
}

RowView RowStore::View(LocalRow row) {
  float* const record = Record(row);
  float* const tail = record + tail_offset_;
  RowView view;
  view.weights = record;
  if (optimizer_->state_vectors() > 0) view.state = record + stride_;
  if (has_bias_) {
    view.bias = tail;
    view.bias_state = tail + 1;
  }
  if (optimizer_->row_state_floats() > 0) {
    view.row_state = tail + 1 + optimizer_->bias_state_floats();
  }
  return view;
}

// Weights and bias within the bound, states finite. The last step is no number and not looked at.
bool RowStore::RecordIsGood(const float* record, float magnitude_bound) const {
  const float* const tail = record + tail_offset_;
  return AllWithin(record, dim_, magnitude_bound) &&
         AllWithin(record + stride_, tail_offset_ - stride_, FLT_MAX) &&
         std::abs(tail[0]) <= magnitude_bound && AllWithin(tail + 1, tail_used_ - 2, FLT_MAX);
}

absl::Status RowStore::SetRecord(LocalRow row, absl::Span<const float> record,
                                 float magnitude_bound) {
  const RowId global = rows_.ToGlobal(row);
  if (static_cast<int64_t>(record.size()) != record_floats_) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "record of row %d has %d floats, this table's records have %d; it comes from "
        "another dim or optimizer",
        global.value(), record.size(), record_floats_));
  }
  if (!RecordIsGood(record.data(), magnitude_bound)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "record of row %d has a weight or state that is not finite or a weight beyond %g",
        global.value(), magnitude_bound));
  }
  const auto is_zero = [&](int64_t begin, int64_t end) {
    return std::all_of(record.begin() + begin, record.begin() + end,
                       [](float value) { return std::bit_cast<uint32_t>(value) == 0; });
  };
  bool padding_is_zero = is_zero(tail_offset_ + tail_used_, record_floats_);
  for (int64_t vector = 0; vector < tail_offset_; vector += stride_) {
    padding_is_zero = padding_is_zero && is_zero(vector + dim_, vector + stride_);
  }
  if (!padding_is_zero) {
    return absl::InvalidArgumentError(
        absl::StrFormat("record of row %d has an unused float that is not 0", global.value()));
  }
  std::copy(record.begin(), record.end(), Record(row));
  return absl::OkStatus();
}

bool RowStore::ApplyGradient(LocalRow row, const float* gradient, float bias_gradient, Step step,
                             float magnitude_bound) {
  if (!AllWithin(gradient, dim_, magnitude_bound)) return false;
  if (has_bias_ && !(std::abs(bias_gradient) <= magnitude_bound)) return false;
  float* const record = Record(row);
  float* const saved = ScratchRecord(record_floats_);
  std::copy_n(record, record_floats_, saved);
  optimizer_->Apply(View(row), gradient, bias_gradient, dim_, stride_, step, LastStep(row));
  if (!RecordIsGood(record, magnitude_bound)) {
    std::copy_n(saved, record_floats_, record);
    return false;
  }
  const uint32_t last_step = static_cast<uint32_t>(step.value());
  std::memcpy(record + tail_offset_ + tail_used_ - 1, &last_step, sizeof(last_step));
  return true;
}

bool RowStore::ChangeWeights(LocalRow row, Change change, const float* values, float bias,
                             float magnitude_bound) {
  float* const record = Record(row);
  float* const tail = record + tail_offset_;
  // What will be stored is looked at before it is, so that nothing has to be put back.
  if (change == Change::kAdd) {
    float* const sum = ScratchRecord(record_floats_);
    std::copy_n(record, dim_, sum);
    AddTo(values, sum, dim_);
    const float new_bias = has_bias_ ? tail[0] + bias : 0.0f;
    if (!AllWithin(sum, dim_, magnitude_bound) || !(std::abs(new_bias) <= magnitude_bound)) {
      return false;
    }
    std::copy_n(sum, dim_, record);
    if (has_bias_) tail[0] = new_bias;
    return true;
  }
  if (!AllWithin(values, dim_, magnitude_bound) ||
      (has_bias_ && !(std::abs(bias) <= magnitude_bound))) {
    return false;
  }
  std::copy_n(values, dim_, record);
  std::fill(record + stride_, tail, 0.0f);
  if (has_bias_) tail[0] = bias;
  std::fill(tail + 1, tail + tail_used_ - 1, 0.0f);
  return true;
}

void RowStore::Prefetch(LocalRow row) const {
  const float* const record = Record(row);
  const int64_t floats = std::min(stride_, kMaxPrefetchFloats);
  for (int64_t i = 0; i < floats; i += kLineFloats) __builtin_prefetch(record + i);
  __builtin_prefetch(record + tail_offset_);
}

void RowStore::PrefetchRecord(LocalRow row) const {
  const float* const record = Record(row);
  const int64_t floats = std::min(record_floats_, kMaxPrefetchFloats);
  for (int64_t i = 0; i < floats; i += kLineFloats) __builtin_prefetch(record + i, /*rw=*/1);
}

uint64_t RowStore::Digest(Parallelism parallelism) const {
  const int64_t grains = (num_rows() + kRowsPerGrain - 1) / kRowsPerGrain;
  std::vector<uint64_t> sums(grains, 0);
  ParallelFor(parallelism, grains, /*grain=*/1, [&](int64_t grain, int) {
    const int64_t end = std::min(num_rows(), (grain + 1) * kRowsPerGrain);
    for (int64_t i = grain * kRowsPerGrain; i < end; ++i) {
      const LocalRow row(static_cast<uint32_t>(i));
      sums[grain] += HashRecord(rows_.ToGlobal(row), Record(row), record_floats_);
    }
  });
  uint64_t digest = 0;
  for (const uint64_t sum : sums) digest += sum;
  return digest;
}

int64_t RowStore::memory_bytes() const {
  return buffer_.size() * static_cast<int64_t>(sizeof(float));
}

}  // namespace dslide
