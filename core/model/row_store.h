// The rows of one table that one shard holds, in memory.
//
// One 64-byte aligned record per row, slots contiguous:
//   [weights: stride floats | state vectors: state_vectors x stride | tail]
//   stride = dim rounded up to 16 floats
//   tail   = bias, bias state, row state, last step (u32), rounded up to 16 floats
// Unused floats are 0, so that records can be compared and digested as bytes.

#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/aligned_buffer.h"
#include "core/base/ids.h"
#include "core/base/parallel.h"
#include "core/lsh/hash_index.h"
#include "core/model/model_spec.h"
#include "core/optim/optimizer.h"
#include "core/partition/slot_map.h"

namespace dslide {

// Thread safety: different rows may be read and changed at the same time; one row only by one.
class RowStore final : public HashedRows {
 public:
  // Rows start as InitSpec says: a pure function of (model seed, table name, global row id), so a
  // row has the same first value on any number of shards.
  // Errors: those of Optimizer::Create and AlignedBuffer::Create.
  static absl::StatusOr<std::unique_ptr<RowStore>> Create(const TableSpec& spec,
                                                          uint64_t model_seed, ShardRows rows,
                                                          Parallelism parallelism);

  const ShardRows& rows() const { return rows_; }
  const Optimizer& optimizer() const { return *optimizer_; }
  int64_t stride() const { return stride_; }
  int64_t record_floats() const { return record_floats_; }

  int64_t num_rows() const override { return rows_.num_rows(); }
  int64_t dim() const override { return dim_; }
  const float* Weights(LocalRow row) const override { return Record(row); }
  float Bias(LocalRow row) const override { return Record(row)[tail_offset_]; }
  bool has_bias() const { return has_bias_; }
  Step LastStep(LocalRow row) const;

  // The whole record: [record_floats()]. What a checkpoint stores.
  absl::Span<const float> RecordSpan(LocalRow row) const;
  // Overwrites a whole record. Errors: InvalidArgument when the size differs or a weight or state
  // is not finite or beyond `magnitude_bound`; nothing is changed then.
  absl::Status SetRecord(LocalRow row, absl::Span<const float> record, float magnitude_bound);

  // Applies one optimizer update number `step`. Requires step > LastStep(row).
  //   gradient : [dim], 64-byte aligned.
  // Returns false, and leaves the whole record as it was, when a gradient or a new weight is not
  // finite or beyond `magnitude_bound`, or a new state is not finite.
  bool ApplyGradient(LocalRow row, const float* gradient, float bias_gradient, Step step,
                     float magnitude_bound);

  // Weights and bias become old + value (kAdd) or value (kAssign: optimizer state becomes 0). The
  // last step stays. `bias` is ignored where rows have none. values: [dim].
  // Returns false, unchanged, as ApplyGradient does.
  enum class Change { kAdd, kAssign };
  bool ChangeWeights(LocalRow row, Change change, const float* values, float bias,
                     float magnitude_bound);

  // Brings the weights and the bias of a row towards the cache; a hint.
  void Prefetch(LocalRow row) const override;
  // Brings the whole record, for an update.
  void PrefetchRecord(LocalRow row) const;

  // Sum over all rows of a 64-bit hash of (global row id, record): independent of order and shards.
  uint64_t Digest(Parallelism parallelism) const;
  int64_t memory_bytes() const;

 private:
  RowStore(const TableSpec& spec, ShardRows rows, std::unique_ptr<Optimizer> optimizer);

  float* Record(LocalRow row) { return buffer_.data() + row.value() * record_floats_; }
  const float* Record(LocalRow row) const { return buffer_.data() + row.value() * record_floats_; }
  RowView View(LocalRow row);
  bool RecordIsGood(const float* record, float magnitude_bound) const;

  const ShardRows rows_;
  const std::unique_ptr<Optimizer> optimizer_;
  const int64_t dim_;
  const bool has_bias_;
  const int64_t stride_;
  const int64_t tail_offset_;    // floats before the tail
  const int64_t tail_used_;      // floats of the tail that mean something, last step included
  const int64_t record_floats_;  // multiple of 16
  AlignedBuffer buffer_;
};

}  // namespace dslide
