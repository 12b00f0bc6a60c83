// The wide input layer of one shard: a sample's partial hidden sum over the features held here.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/engine/rows/row_store.h"

namespace dslide {

// Features of a batch, compressed by sample.
struct FeatureBatch {
  std::vector<uint32_t> offsets;  // [batch + 1], ascending from 0
  std::vector<LocalRow> rows;     // [offsets.back()], strictly ascending within a sample
  std::vector<float> values;      // [offsets.back()]

  int64_t batch() const { return static_cast<int64_t>(offsets.size()) - 1; }
};

// Thread safety: Forward() is concurrent with itself; the caller excludes Backward(). Both use up
// to `parallelism` threads inside and give equal bits for any number of them.
class EmbeddingTable {
 public:
  // `spec.role` is kEmbedding. Errors: those of RowStore::Create.
  static absl::StatusOr<std::unique_ptr<EmbeddingTable>> Create(const TableSpec& spec,
                                                                uint64_t model_seed, ShardRows rows,
                                                                Parallelism parallelism);
  ~EmbeddingTable();

  RowStore& store() { return *store_; }
  const RowStore& store() const { return *store_; }
  // Number of updates applied.
  Step applied() const { return applied_; }
  void set_applied(Step applied) { applied_ = applied; }

  // sums[i] = sum over the sample's features of value * row. sums: [batch, dim], overwritten.
  //   averaged : of averaged rows, where the table keeps averages
  void Forward(const FeatureBatch& features, bool averaged, Parallelism parallelism,
               absl::Span<float> sums) const;

  // One update: each distinct row once, with gradient sum over samples of value * gradient[sample].
  //   gradient : [batch, dim] of the loss by the hidden sums.
  // Returns the number of distinct rows. Rows refused by the magnitude bound are counted in
  // *rejected_rows and stay unchanged. For the learning rate see RowStore::BeginUpdate().
  int64_t Backward(const FeatureBatch& features, absl::Span<const float> gradient,
                   float magnitude_bound, Parallelism parallelism, int64_t* rejected_rows,
                   std::optional<double> learning_rate = std::nullopt);

 private:
  explicit EmbeddingTable(std::unique_ptr<RowStore> store);
  struct Scratch;

  std::unique_ptr<RowStore> store_;
  Step applied_ = Step(0);
  std::unique_ptr<Scratch> scratch_;  // of Backward()
};

}  // namespace dslide
