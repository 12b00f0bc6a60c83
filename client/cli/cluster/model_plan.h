// What a model will take: memory of each shard, and bytes of each step. Arithmetic only.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/components/component_content.h"
#include "core/engine/rows/table_bytes.h"
#include "core/spec/model_spec.h"

namespace dslide::cli {

// What the model spec does not say.
struct PlanInput {
  ModelSpec spec;      // every size set
  int64_t shards = 1;  // of equal capacity
  int threads = 2;     // of each shard
  // Of each shard; unset: no verdict.
  std::optional<int64_t> memory_bytes;
  double features_per_sample = 64;
  double labels_per_sample = 4;
  double link_bits_per_second = 1e9;  // each direction
  // Of tables of records; unset: there are none.
  std::optional<ComponentContent> content = std::nullopt;
};

// One table on the fullest shard.
struct TablePlan {
  std::string name;
  int64_t rows = 0;  // there
  int64_t record_bytes = 0;
  TableBytes bytes;
  int64_t working_bytes = 0;
  // Of a table of records alone.
  int64_t records = 0;      // there: points, pieces of trees, rows that are made
  int64_t index_bytes = 0;  // what is derived from the records: neighbour search, lists of labels

  int64_t total() const { return bytes.total() + working_bytes + index_bytes; }
};

// The memory of the fullest shard.
struct ShardPlan {
  std::vector<TablePlan> tables;
  int64_t step_bytes = 0;     // estimate: contexts of open steps, gradients, messages
  int64_t process_bytes = 0;  // estimate: code, libraries, threads

  int64_t total() const;
};

// Messages of one step between one trainer and one shard, each with its 5-byte prefix.
struct WirePlan {
  int64_t request_bytes = 0;  // trainer to shard
  int64_t reply_bytes = 0;
  double bytes_per_sample = 0;  // both ways, one shard
  // Of the messages above, requests and answers; kMaxMessageBytes of the protocol at most can be
  // sent.
  int64_t largest_message_bytes = 0;
  // The batch size at which it can be; that of the model where it can. At least 1.
  int64_t sendable_batch = 0;
  // One trainer and all shards.
  int64_t step_bytes = 0;
  int64_t dense_step_bytes = 0;           // a dense all-reduce: 2 x parameters x 4
  double max_steps_per_second = 0;        // by the trainer's link
  double max_dense_steps_per_second = 0;  // by the same link
};

// What the training of tables of records takes beside memory; all estimates.
struct RecordPlan {
  int64_t checkpoint_bytes = 0;  // of the whole model, over all shards
  // From the trainer to all shards, in messages with their prefix.
  int64_t points_sent = 0;
  int64_t trees_sent = 0;
  int64_t queries_sent = 0;  // neighbours of the network's points, scores of the held-out ones
  int64_t network_sent = 0;  // of all its epochs: steps, and the held-out points after each

  int64_t sent() const { return points_sent + trees_sent + queries_sent + network_sent; }
};

struct ModelPlan {
  int64_t parameters = 0;
  ShardPlan shard;
  int64_t all_shards_bytes = 0;  // estimate: shards x the fullest
  WirePlan wire;
  std::optional<RecordPlan> records;  // of a model with a memory
  std::optional<bool> fits;
  // What would make it fit, each a sentence; empty when it fits.
  std::vector<std::string> remedies;
};

// Errors: InvalidArgument from the slot map (more shards than slots).
absl::StatusOr<ModelPlan> MakePlan(const PlanInput& input);

// The part of it about messages alone. Errors: the same.
absl::StatusOr<WirePlan> PlanWire(const PlanInput& input);

}  // namespace dslide::cli
