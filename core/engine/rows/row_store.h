// The rows of one table that one shard holds, in memory.
//
// One 64-byte aligned record per row, slots contiguous, laid out as row_layout.h says: f32, or bf16
// where the table's precision says so. Unused bytes are 0, so that records can be compared and
// digested as bytes. Arithmetic is f32: bf16 parts are widened before and rounded after it.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/base/parallel.h"
#include "core/engine/lsh/hash_index.h"
#include "core/engine/optim/optimizer.h"
#include "core/engine/optim/row_average.h"
#include "core/engine/rows/row_init.h"
#include "core/engine/rows/row_layout.h"
#include "core/engine/rows/stored_rows.h"
#include "core/partition/slot_map.h"
#include "core/spec/model_spec.h"
#include "core/system/aligned_buffer.h"

namespace dslide {

// What is the same for all rows of one update; from RowStore::BeginUpdate().
struct RowUpdate {
  StepFactors factors;
  float magnitude_bound = 0.0f;
};

// Thread safety: that of StoredRows.
class RowStore final : public HashedRows, public StoredRows {
 public:
  // Rows start as InitSpec says: a pure function of (model seed, table name, global row id), so a
  // row has the same first value on any number of shards (rounded to nearest in bf16).
  // Errors: those of Optimizer::Create and AlignedBuffer::Create.
  static absl::StatusOr<std::unique_ptr<RowStore>> Create(const TableSpec& spec,
                                                          uint64_t model_seed, ShardRows rows,
                                                          Parallelism parallelism);
  // memory_bytes() of a store with so many rows.
  static int64_t BytesFor(const TableSpec& spec, int64_t num_rows) {
    return num_rows * RowLayout::Of(spec).record_bytes;
  }

  const Optimizer& optimizer() const { return *optimizer_; }
  const RowLayout& layout() const { return layout_; }
  // dim rounded up to 64 bytes of floats: what one gradient or widened row needs.
  int64_t stride() const { return stride_; }
  int64_t record_bytes() const override { return layout_.record_bytes; }
  int64_t present() const override {
    return num_rows() - num_absent_.load(std::memory_order_relaxed);
  }

  int64_t num_rows() const override { return rows().num_rows(); }
  int64_t dim() const override { return layout_.dim; }
  // Weights of a table in f32, where they lie. Requires precision f32; ReadWeights() serves all.
  const float* Weights(LocalRow row) const {
    if (layout_.bf16_weights()) FailOnBf16Weights();
    return reinterpret_cast<const float*>(Record(row));
  }
  // The weights as floats: the record itself, or `scratch` filled. scratch: [stride()].
  const float* ReadWeights(LocalRow row, float* scratch) const override {
    if (layout_.bf16_weights()) return WidenWeights(row, scratch);
    return reinterpret_cast<const float*>(Record(row));
  }
  float Bias(LocalRow row) const override { return Tail(row)[0]; }
  bool has_bias() const { return layout_.has_bias; }
  Step LastStep(LocalRow row) const;

  // Whether rows have averages beside their weights.
  bool has_average() const { return average_ != nullptr; }
  // A row as its average is after update number `now` of the table: weights into `out`
  // ([stride()]), and the bias. Requires has_average() and now >= LastStep(row).
  void ReadAverage(LocalRow row, Step now, float* out) const;
  float AverageBias(LocalRow row, Step now) const;

  // Makes the marked rows of a head absent: they have no record, read as zeros, and no update
  // changes them. Whole pages of them go back to the system; memory_bytes() stays. Those that were
  // absent and are not marked get their first values. marked: [num_rows()], or empty: none.
  // Returns the rows that have changed.
  std::vector<LocalRow> SetAbsent(absl::Span<const uint8_t> marked);
  bool IsAbsent(LocalRow row) const {
    return num_absent_.load(std::memory_order_relaxed) > 0 && absent_[row.value()] != 0;
  }

  // The whole record: [record_bytes()], or empty: absent. What a checkpoint stores.
  absl::Span<const char> RecordSpan(LocalRow row) const override {
    if (IsAbsent(row)) return {};
    return {Record(row), static_cast<size_t>(layout_.record_bytes)};
  }
  // Overwrites a whole record; that of an absent row, too. Errors: InvalidArgument when the size
  // differs (none fits an absent row), a weight or state is not finite or a weight beyond
  // `magnitude_bound`, or an unused byte is not 0; nothing is changed then. `record` need not be
  // aligned.
  absl::Status SetRecord(LocalRow row, absl::Span<const char> record,
                         float magnitude_bound) override;
  // Whether SetRecord() would take it.
  absl::Status CheckRecord(LocalRow row, absl::Span<const char> record,
                           float magnitude_bound) const;

  // What update number `step` has for every row. Also keys the rounding of bf16 tables, by (model
  // seed, table name, global row id, step): equal bits for any number of threads and shards.
  // Without a learning rate of its own it has the one that the optimizer's schedule says.
  RowUpdate BeginUpdate(Step step, float magnitude_bound,
                        std::optional<double> learning_rate = std::nullopt) const;

  // Applies one optimizer update. Requires its step > LastStep(row).
  //   gradient : [dim], 64-byte aligned.
  // Returns false, and leaves the whole record as it was, when a gradient or a new weight is not
  // finite or beyond the magnitude bound, or a new state is not finite. True for an absent row.
  bool ApplyGradient(LocalRow row, const float* gradient, float bias_gradient,
                     const RowUpdate& update);

  // Weights and bias become old + value (kAdd; rounded at random in bf16) or value (kAssign: to
  // nearest in bf16; optimizer state becomes 0). The last step stays. An average moves with what is
  // added, and becomes what is assigned. `bias` is ignored where rows
  // have none. values: `dim` floats that start at any byte, as messages bring them. Returns false,
  // unchanged, as ApplyGradient does.
  enum class Change { kAdd, kAssign };
  bool ChangeWeights(LocalRow row, Change change, const char* values, float bias,
                     const RowUpdate& update);
  bool ChangeWeights(LocalRow row, Change change, const float* values, float bias,
                     const RowUpdate& update) {
    return ChangeWeights(row, change, reinterpret_cast<const char*>(values), bias, update);
  }

  // Brings the weights and the bias of a row towards the cache; a hint.
  void Prefetch(LocalRow row) const override;
  // Brings the whole record, for an update.
  void PrefetchRecord(LocalRow row) const;
  // Brings what adding to the weights touches.
  void PrefetchForAdd(LocalRow row) const;

  int64_t memory_bytes() const override;

 private:
  RowStore(const TableSpec& spec, uint64_t model_seed, ShardRows rows,
           std::unique_ptr<Optimizer> optimizer);
  // A record as f32 arithmetic sees it, and a whole record in its stored form; see row_store.cc.
  struct Workspace;
  Workspace& ThreadWorkspace() const;

  char* Record(LocalRow row) {
    return reinterpret_cast<char*>(buffer_.data()) + row.value() * layout_.record_bytes;
  }
  const char* Record(LocalRow row) const {
    return reinterpret_cast<const char*>(buffer_.data()) + row.value() * layout_.record_bytes;
  }
  float* Tail(LocalRow row) { return reinterpret_cast<float*>(Record(row) + layout_.tail_offset); }
  const float* Tail(LocalRow row) const {
    return reinterpret_cast<const float*>(Record(row) + layout_.tail_offset);
  }
  [[noreturn]] void FailOnBf16Weights() const;
  const float* WidenWeights(LocalRow row, float* scratch) const;
  RowSource SourceOf(const char* record, Workspace& work) const;
  RowView ViewOf(Workspace& work) const;
  bool ShortenWeights(LocalRow row, const RowUpdate& update, bool to_nearest,
                      Workspace& work) const;
  uint64_t RoundingBitsOf(LocalRow row, const RowUpdate& update) const;
  void ShortenState(LocalRow row, const RowUpdate& update, bool to_nearest, Workspace& work) const;
  // After the weights in `work` have been shortened, before the state is.
  void MoveAverage(LocalRow row, const RowSource& from, Step step, Workspace& work) const;
  const float* ReadLag(LocalRow row, float* scratch) const;
  void Store(LocalRow row, const Workspace& work);
  bool ChangeFloats(LocalRow row, Change change, const char* values, float bias,
                    float magnitude_bound);
  void StoreLastStep(LocalRow row, Step step);
  void FillFirst(LocalRow row);
  // Gives the memory of these rows back, of which none is read, as far as it is whole pages.
  void ReleasePages(int64_t first, int64_t end);
  // Before the record changes.
  void Preserve(LocalRow row) { StoredRows::Preserve(row, RowStore::RecordSpan(row)); }

  const std::unique_ptr<Optimizer> optimizer_;
  const std::unique_ptr<RowAverage> average_;  // null: rows have none
  const RowLayout layout_;
  const int64_t stride_;         // floats
  const uint64_t rounding_key_;  // of the table
  AlignedBuffer buffer_;
  const RowInit init_;
  std::vector<uint8_t> absent_;  // [num_rows()] of a head, else empty
  std::atomic<int64_t> num_absent_ = 0;
};

}  // namespace dslide
