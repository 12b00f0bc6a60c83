// A network over the real tables of some shards, with the trainer's part in plain loops: adds the
// shards' partial sums, runs the dense layers, combines the softmax, and hands gradients back.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/engine/model/embedding_table.h"
#include "core/engine/model/head_table.h"
#include "core/engine/rows/aligned_floats.h"
#include "core/spec/model_spec.h"
#include "tests/reference/model_reference.h"

namespace dslide::reference {

class ShardedNetwork {
 public:
  // One shard per weight. `spec` has an embedding table, any dense tables, and a head. Dies on
  // errors: tests give it good specs.
  ShardedNetwork(const ModelSpec& spec, const std::vector<double>& shard_weights, int threads);

  // Whether fingerprints are sent to heads that have hash tables, and explicit rows to all.
  void set_fingerprints(bool are_sent) { fingerprints_ = are_sent; }
  void set_named(bool are_sent) { named_ = are_sent; }

  // Forward over all shards. Returns the loss of the samples (their terms are not looked at).
  double Forward(const std::vector<Sample>& samples, uint64_t tail_key, double scale);
  // Updates all tables by the last Forward(). Returns the rows refused by the magnitude bound.
  int64_t Backward();
  double Step(const std::vector<Sample>& samples, uint64_t tail_key, double scale);

  // The samples of the last Forward() with the terms that the heads chose.
  std::vector<Sample> SamplesWithTerms() const;
  // All weights, by global row.
  Network Weights() const;
  // Order-independent digest of all rows of all tables, states included.
  uint64_t Digest() const;

  int64_t num_shards() const { return static_cast<int64_t>(shards_.size()); }
  EmbeddingTable& embedding(int64_t shard) { return *shards_[shard].embedding; }
  HeadTable& head(int64_t shard) { return *shards_[shard].head; }
  RowStore& dense(int64_t shard, int64_t layer) { return *shards_[shard].dense[layer]; }
  const HeadContext& context(int64_t shard) const { return shards_[shard].context; }
  const HeadForwardOutput& output(int64_t shard) const { return shards_[shard].output; }
  // [batch][width] before the head, of the last Forward().
  const std::vector<std::vector<float>>& hidden() const { return activations_.back(); }
  const std::vector<float>& log_partitions() const { return log_partitions_; }

 private:
  struct Shard {
    std::unique_ptr<EmbeddingTable> embedding;
    std::vector<std::unique_ptr<RowStore>> dense;
    std::unique_ptr<HeadTable> head;
    FeatureBatch features;
    HeadContext context;
    HeadForwardOutput output;
  };

  // The explicit rows that a shard holds.
  ExplicitRows<LocalRow> NamedOn(const ShardRows& rows) const;
  void ForwardHidden();
  void ForwardHead(uint64_t tail_key);
  double CombineSoftmax();
  std::vector<std::vector<float>> BackwardDense(std::vector<std::vector<float>> gradient);

  const ModelSpec spec_;
  const Parallelism parallelism_;
  const TableSpec* head_spec_;
  std::vector<Shard> shards_;
  std::vector<int64_t> dense_steps_;
  std::vector<Sample> samples_;
  float scale_ = 1.0f;
  bool fingerprints_ = true;
  bool named_ = false;
  std::vector<std::vector<std::vector<float>>> activations_;  // [layers][batch][width]
  std::vector<float> log_partitions_;
};

}  // namespace dslide::reference
