// The commands of a client that trains the sample model.

#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/counter_rng.h"
#include "core/engine/lsh/hash_family.h"
#include "tests/unit/services/shard/state/shard_samples.h"

namespace dslide::shard {

// A client of shard 0 of a cluster of two equal shards.
class SampleTrainer {
 public:
  explicit SampleTrainer(uint8_t number = 1, uint64_t seed = 9)
      : client_(SampleClient(number)),
        rng_(DeriveKey(seed, number)),
        spec_(SampleSpec()),
        map_(*SlotMap::Deal(16, {1.0, 1.0})),
        dense_map_(*SlotMap::Deal(4, {1.0, 1.0})),
        family_(
            std::move(HashFamily::Create(ResolvedHead(spec_.tables[2]).hash, kSampleDim)).value()) {
  }

  const ClientId& client() const { return client_; }
  HelloCommand Hello() const {
    return {.job = "job", .client = client_, .acknowledged_sequence = 0};
  }
  CloseClientCommand CloseClient() const { return {.job = "job", .client = client_}; }

  // The envelope of the next mutation; everything before it is acknowledged.
  Envelope Next() {
    ++sequence_;
    return {.job = "job",
            .client = client_,
            .sequence = sequence_,
            .first_incomplete = sequence_ > keep_ ? sequence_ - keep_ : 1,
            .generation = generation_,
            .topology_version = 1,
            .model = "m"};
  }
  // Gives the last sequence back: it was not used up.
  void TakeBack() { --sequence_; }
  uint64_t sequence() const { return sequence_; }
  void set_generation(uint64_t generation) { generation_ = generation; }
  // Answers that stay unacknowledged.
  void set_keep(uint64_t keep) { keep_ = keep; }

  StepCommand Step(StepOp op, int64_t step, int64_t first_open_step = 0) {
    return {
        .envelope = Next(), .step = step, .first_open_step = first_open_step, .op = std::move(op)};
  }

  EmbedForwardOp EmbedForward(int64_t batch = 4) {
    EmbedForwardOp op;
    op.table = "input";
    op.offsets = {0};
    for (int64_t i = 0; i < batch; ++i) {
      for (const RowId row : HeldRows(map_, kSampleFeatures, 5)) {
        op.rows.push_back(row);
        op.values.push_back(rng_.NextUniform() + 0.1f);
      }
      op.offsets.push_back(static_cast<uint32_t>(op.rows.size()));
    }
    return op;
  }

  HeadForwardOp HeadForward(int64_t batch = 4) {
    HeadForwardOp op;
    op.table = "head";
    op.dim = kSampleDim;
    op.hidden = Floats(batch * kSampleDim);
    op.fingerprints.resize(batch * family_->num_tables());
    family_->HashQueries(op.hidden, batch, Parallelism{1}, absl::MakeSpan(op.fingerprints));
    op.label_offsets = {0};
    for (int64_t i = 0; i < batch; ++i) {
      for (const RowId row : HeldRows(map_, kSampleLabels, 2)) op.labels.push_back(row);
      op.label_offsets.push_back(static_cast<uint32_t>(op.labels.size()));
      op.label_targets.push_back(0.5f);
    }
    op.recall_samples = {0};
    return op;
  }

  HeadBackwardOp HeadBackward(int64_t batch = 4) {
    return {.table = "head",
            .log_partitions = std::vector<float>(batch, 3.0f),
            .scale = 1.0f / static_cast<float>(batch)};
  }

  EmbedBackwardOp EmbedBackward(int64_t batch = 4) {
    return {.table = "input", .dim = kSampleDim, .gradient = Floats(batch * kSampleDim)};
  }

  DenseScatterOp DenseScatter() {
    return {.table = "hidden",
            .gradients = Block(HeldRows(dense_map_, kSampleDim, kSampleDim), true)};
  }

  ScatterCommand Scatter(ScatterMode mode, const std::string& table = "head") {
    const bool head = table == "head";
    const std::vector<RowId> rows = HeldRows(map_, head ? kSampleLabels : kSampleFeatures, 6);
    return {.envelope = Next(), .table = table, .mode = mode, .rows = Block(rows, head)};
  }

  GatherCommand Gather(const std::string& table = "head") {
    GatherCommand command;
    command.model = "m";
    command.table = table;
    command.rows = HeldRows(map_, table == "head" ? kSampleLabels : kSampleFeatures, 10);
    return command;
  }

  // At most `count` ids held by shard 0, ascending.
  std::vector<RowId> HeldRows(const SlotMap& map, int64_t rows, int64_t count) {
    std::vector<RowId> held;
    for (int64_t row = 0; row < rows; ++row) {
      const RowId id(static_cast<uint32_t>(row));
      if (map.OwnerOf(id) == ShardId(0)) held.push_back(id);
    }
    while (static_cast<int64_t>(held.size()) > count) {
      held.erase(held.begin() + static_cast<int64_t>(rng_.NextBelow(held.size())));
    }
    return held;
  }

  RowBlock Block(std::vector<RowId> rows, bool with_bias) {
    RowBlock block;
    block.dim = kSampleDim;
    block.values = Floats(static_cast<int64_t>(rows.size()) * kSampleDim);
    if (with_bias) block.biases = Floats(static_cast<int64_t>(rows.size()));
    block.rows = std::move(rows);
    return block;
  }

  std::vector<float> Floats(int64_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = rng_.NextUniform() - 0.5f;
    return values;
  }

  CounterRng& rng() { return rng_; }
  const SlotMap& map() const { return map_; }

 private:
  const ClientId client_;
  CounterRng rng_;
  const ModelSpec spec_;
  const SlotMap map_;
  const SlotMap dense_map_;
  const std::unique_ptr<HashFamily> family_;
  uint64_t sequence_ = 0;
  uint64_t generation_ = 0;
  uint64_t keep_ = 0;
};

// A shard 0 of two that has the sample model and knows the client.
inline std::unique_ptr<ShardCore> SampleCore(const SampleTrainer& trainer,
                                             ShardCoreOptions options = SampleOptions()) {
  auto core = std::make_unique<ShardCore>(options);
  EXPECT_TRUE(
      core->Apply(SetOwnershipCommand{.shard = ShardId(0), .generation = 7}).reply->status.ok());
  EXPECT_TRUE(core->Apply(SampleCreate()).reply->status.ok());
  EXPECT_TRUE(core->Apply(trainer.Hello()).reply->status.ok());
  return core;
}

}  // namespace dslide::shard
