// A small model for tests of the shard.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/reason.h"
#include "core/protocol/commands.h"
#include "services/shard/state/shard_core.h"

namespace dslide::shard {

inline constexpr int64_t kSampleDim = 8;
inline constexpr int64_t kSampleFeatures = 90;
inline constexpr int64_t kSampleLabels = 150;

inline ModelSpec SampleSpec(int64_t max_active = 12) {
  ModelSpec spec;
  spec.name = "m";
  spec.seed = 5;
  spec.magnitude_bound = 100;
  TableSpec input;
  input.name = "input";
  input.role = TableRole::kEmbedding;
  input.rows = kSampleFeatures;
  input.dim = kSampleDim;
  input.num_slots = 16;
  TableSpec hidden;
  hidden.name = "hidden";
  hidden.role = TableRole::kDense;
  hidden.rows = kSampleDim;
  hidden.dim = kSampleDim;
  hidden.num_slots = 4;
  hidden.optimizer.kind = OptimizerKind::kAdagrad;
  TableSpec head;
  head.name = "head";
  head.role = TableRole::kHead;
  head.rows = kSampleLabels;
  head.dim = kSampleDim;
  head.num_slots = 16;
  head.head.max_active = max_active;
  head.head.tail_rows = 20;
  head.head.hash.num_tables = 6;
  head.head.hash.codes_per_table = 4;
  head.head.hash.rebuild_every_steps = 3;
  spec.tables = {input, hidden, head};
  return spec;
}

inline CreateModelCommand SampleCreate(const ModelSpec& spec = SampleSpec(), int32_t shard = 0,
                                       std::vector<double> weights = {1.0, 1.0}) {
  CreateModelCommand command;
  command.spec = spec;
  command.shard = ShardId(shard);
  command.slot_maps = {*SlotMap::Deal(16, weights), *SlotMap::Deal(4, weights)};
  command.topology_version = 1;
  return command;
}

inline ClientId SampleClient(uint8_t number) {
  ClientId client = {};
  client[0] = number;
  client[15] = 1;
  return client;
}

inline ShardCoreOptions SampleOptions(int threads = 1) {
  ShardCoreOptions options;
  options.parallelism.threads = threads;
  return options;
}

inline std::string Reason(const Answer& answer) { return ReasonOf(answer.reply->status); }

}  // namespace dslide::shard
