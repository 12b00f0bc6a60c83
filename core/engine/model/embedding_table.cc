#include "core/engine/model/embedding_table.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/status_macros.h"
#include "core/engine/math/kernels.h"
#include "core/engine/model/batch_inversion.h"
#include "core/engine/rows/aligned_floats.h"
#include "core/engine/rows/row_reader.h"

namespace dslide {
namespace {

// Rows asked for ahead of their use. From bench/train/head_step_benchmark.cc.
constexpr int64_t kRowsAhead = 8;
// Whole records are several times what the forward pass reads, so fewer are asked for ahead.
constexpr int64_t kUpdatesAhead = 2;

}  // namespace

// Kept between updates so that a steady stream of batches allocates nothing.
struct EmbeddingTable::Scratch {
  BatchInversion inversion;
  std::vector<uint32_t> sample_of;           // [pairs]: the sample of each feature
  std::vector<AlignedFloats> row_gradients;  // one per thread
};

EmbeddingTable::EmbeddingTable(std::unique_ptr<RowStore> store)
    : store_(std::move(store)), scratch_(std::make_unique<Scratch>()) {}

EmbeddingTable::~EmbeddingTable() = default;

absl::StatusOr<std::unique_ptr<EmbeddingTable>> EmbeddingTable::Create(const TableSpec& spec,
                                                                       uint64_t model_seed,
                                                                       ShardRows rows,
                                                                       Parallelism parallelism) {
  ASSIGN_OR_RETURN(std::unique_ptr<RowStore> store,
                   RowStore::Create(spec, model_seed, std::move(rows), parallelism));
  return std::unique_ptr<EmbeddingTable>(new EmbeddingTable(std::move(store)));
}

void EmbeddingTable::Forward(const FeatureBatch& features, bool averaged, Parallelism parallelism,
                             absl::Span<float> sums) const {
  const RowStore& store = *store_;
  const RowReader reader = averaged ? RowReader::Averaged(store, applied_) : RowReader(store);
  const int64_t dim = store.dim();
  std::vector<AlignedFloats> scratch(std::max(1, parallelism.threads));
  for (AlignedFloats& row : scratch) row.Resize(store.stride());
  ParallelFor(parallelism, features.batch(), /*grain=*/8, [&](int64_t sample, int thread) {
    float* const sum = sums.data() + sample * dim;
    float* const widened = scratch[thread].data();
    std::fill_n(sum, dim, 0.0f);
    const uint32_t end = features.offsets[sample + 1];
    for (uint32_t i = features.offsets[sample]; i < end; ++i) {
      if (i + kRowsAhead < end) reader.Prefetch(features.rows[i + kRowsAhead]);
      Axpy(features.values[i], reader.Weights(features.rows[i], widened), sum, dim);
    }
  });
}

int64_t EmbeddingTable::Backward(const FeatureBatch& features, absl::Span<const float> gradient,
                                 float magnitude_bound, Parallelism parallelism,
                                 int64_t* rejected_rows, std::optional<double> learning_rate) {
  RowStore& store = *store_;
  const int64_t dim = store.dim();
  Scratch& scratch = *scratch_;
  const absl::Span<uint64_t> keys =
      scratch.inversion.ResizeKeys(static_cast<int64_t>(features.rows.size()));
  scratch.sample_of.resize(features.rows.size());
  ParallelFor(parallelism, features.batch(), /*grain=*/64, [&](int64_t sample, int) {
    for (uint32_t i = features.offsets[sample]; i < features.offsets[sample + 1]; ++i) {
      keys[i] = BatchInversion::Key(features.rows[i], i);
      scratch.sample_of[i] = static_cast<uint32_t>(sample);
    }
  });
  scratch.inversion.Invert(store.num_rows(), parallelism);
  const absl::Span<const LocalRow> rows = scratch.inversion.rows();
  const absl::Span<const uint32_t> offsets = scratch.inversion.offsets();
  const absl::Span<const uint32_t> pairs = scratch.inversion.tags();

  applied_ = Step(applied_.value() + 1);
  const RowUpdate update = store.BeginUpdate(applied_, magnitude_bound, learning_rate);
  const int threads = std::max(1, parallelism.threads);
  scratch.row_gradients.resize(threads);
  for (AlignedFloats& row_gradient : scratch.row_gradients) row_gradient.Resize(dim);
  const int64_t num_rows = static_cast<int64_t>(rows.size());
  std::vector<int64_t> rejected(threads, 0);
  ParallelFor(parallelism, num_rows, /*grain=*/64, [&](int64_t i, int thread) {
    if (i + kUpdatesAhead < num_rows) store.PrefetchRecord(rows[i + kUpdatesAhead]);
    float* const row_gradient = scratch.row_gradients[thread].data();
    std::fill_n(row_gradient, dim, 0.0f);
    for (uint32_t k = offsets[i]; k < offsets[i + 1]; ++k) {
      const uint32_t pair = pairs[k];
      Axpy(features.values[pair], gradient.data() + scratch.sample_of[pair] * dim, row_gradient,
           dim);
    }
    if (!store.ApplyGradient(rows[i], row_gradient, 0.0f, update)) {
      ++rejected[thread];
    }
  });
  *rejected_rows = 0;
  for (const int64_t count : rejected) *rejected_rows += count;
  return num_rows;
}

}  // namespace dslide
