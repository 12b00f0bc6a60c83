// What a committed cluster checkpoint consists of. docs/operate/checkpoint.md describes the file.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/ids.h"
#include "core/protocol/cluster_status.h"
#include "core/protocol/commands.h"
#include "core/spec/model_spec.h"
#include "services/coordinator/assets/asset_store.h"
#include "services/coordinator/jobs/job.h"
#include "services/coordinator/membership/shard_admin.h"

namespace dslide::coordinator {

struct Manifest {
  uint64_t checkpoint_id = 0;
  int64_t created_unix_ms = 0;  // for people
  uint64_t topology_version = 0;
  uint64_t restore_count = 0;         // how often the cluster had been taken back before
  std::vector<CheckpointPart> parts;  // by shard, all of them
  std::vector<ModelSpec> models;
  std::vector<JobRecord> jobs;
  // Of the models that had some; nothing where the checkpoint is of a version that kept none.
  std::optional<std::vector<AssetSet>> assets = {};
  // Of each client that was followed, the last step that is in the cut, on every shard.
  std::vector<ClientStep> steps;
  // Clients that were retired: the cut may hold parts of the last steps that they had in flight.
  std::vector<ClientId> evicted;
  // Not in the file: what the last verification found wrong with it; "": nothing.
  std::string damage = {};
  int64_t stall_us = 0;     // the longest that requests had to wait for the cut of a shard
  int64_t duration_us = 0;  // until all parts were prepared
};

// None where it says nothing of them.
std::vector<AssetSet> AssetsOf(const Manifest& manifest);
// What each shard may build its part of the next one on: nothing where another process serves now.
std::vector<PartBase> BasesFor(const ClusterMap& map, const std::optional<Manifest>& base);
// What clients are told of it.
ClusterCheckpoint SummaryOf(const Manifest& manifest);
// Whether some part of it was built on an earlier one.
bool IsIncrement(const Manifest& manifest);

// JSON text and a line with its CRC-32C.
std::string EncodeManifest(const Manifest& manifest);
// Errors: DataLoss naming what is wrong with it; FailedPrecondition when another version has
// written it.
absl::StatusOr<Manifest> DecodeManifest(absl::string_view text);

}  // namespace dslide::coordinator
