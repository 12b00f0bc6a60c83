// What the kept files of a coordinator hold: for generate_formats.cc, and for the tests that read
// them.

#pragma once

#include <vector>

#include "services/coordinator/checkpoints/manifest.h"
#include "services/coordinator/membership/membership.h"
#include "tests/golden/golden_shard.h"

namespace dslide::golden {

inline constexpr uint64_t kManifestCheckpoint = 7;
inline constexpr uint64_t kDamagedEpoch = 5;
inline constexpr char kDamage[] = "shard 1: model-000/000012.sst does not have its checksum";
inline constexpr uint64_t kRestoreCount = 2;

inline coordinator::MembershipRecord GoldenMembership() {
  return {.expected_shards = 2,
          .topology_version = 4,
          .dealt_weights = {1.0, 0.5},
          .shards = {{.shard = 0,
                      .address = "shard-0.example:7010",
                      .capacity_weight = 1.0,
                      .generation = 3,
                      .instance_id = "instance-of-zero",
                      .left = false,
                      .admin_address = "shard-0.example:7011"},
                     {.shard = 1,
                      .address = "shard-1.example:7010",
                      .capacity_weight = 0.5,
                      .generation = uint64_t{1} << 60,
                      .instance_id = "instance-of-one\xff",
                      .left = true,
                      .admin_address = ""}}};
}

// By name.
inline std::vector<ModelSpec> GoldenModels() {
  ModelSpec other = GoldenModel();
  other.name = "other";
  other.training.max_epochs = 3;
  return {GoldenModel(), other};
}

inline coordinator::Manifest GoldenManifest(uint64_t checkpoint_id = kManifestCheckpoint) {
  coordinator::Manifest manifest;
  manifest.checkpoint_id = checkpoint_id;
  manifest.created_unix_ms = 1'700'000'000'123;
  manifest.topology_version = 4;
  manifest.restore_count = 1;
  manifest.parts = {{.shard = ShardId(0),
                     .generation = 3,
                     .rows = 10,
                     .files = 2,
                     .bytes = 500,
                     .files_checksum = 0xfedcba98,
                     .base_checkpoint_id = checkpoint_id - 1,
                     .full_checkpoint_id = 1,
                     .increments = 3,
                     .written_bytes = 40},
                    {.shard = ShardId(1),
                     .generation = 5,
                     .rows = 11,
                     .files = 3,
                     .bytes = 600,
                     .files_checksum = 17,
                     .full_checkpoint_id = checkpoint_id,
                     .written_bytes = 600}};
  manifest.models = GoldenModels();
  coordinator::JobRecord job;
  job.spec = {.job = "golden-job",
              .model = "golden",
              .samples_per_epoch = 1000,
              .chunk_samples = 100,
              .max_epochs = 3,
              .patience_epochs = 2,
              .evaluate = true,
              .seed = 0xffffffffffffffff,
              .data_fingerprint = 0x8000000000000001,
              .training = {.input_dropout = 0.25, .order_seed = 0xffffffffffffffff},
              .rates = {{.table = "input", .learning_rate = 0.1},
                        {.table = "head",
                         .learning_rate = 0.2,
                         .schedule = {.kind = ScheduleKind::kCosine, .decay_steps = 9}}}};
  job.epoch = 1;
  job.done = {{.first = 0, .count = 2}, {.first = 4, .count = 1}};
  job.best_epoch = 0;
  job.best_metric = 0.1234567890123;
  job.epochs_without_better = 1;
  manifest.jobs = {job};
  manifest.steps = {{ClientId{1, 2, 255}, 77}, {ClientId{3}, 78}};
  manifest.evicted = {ClientId{9}};
  manifest.stall_us = 1234;
  manifest.duration_us = 5678;
  return manifest;
}

// One that says which assets its models had.
inline coordinator::Manifest GoldenManifestWithAssets() {
  coordinator::Manifest manifest = GoldenManifest();
  manifest.assets = std::vector<coordinator::AssetSet>{
      {.id = {.model = "golden", .checksum = 0xfedcba98}, .files = 4, .bytes = 123}};
  return manifest;
}

}  // namespace dslide::golden
