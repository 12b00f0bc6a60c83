// What a committed cluster checkpoint consists of. docs/operate/checkpoint.md describes the file.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/ids.h"
#include "core/protocol/commands.h"
#include "core/spec/model_spec.h"
#include "services/coordinator/jobs/job.h"
#include "services/coordinator/membership/shard_admin.h"

namespace dslide::coordinator {

struct ManifestPart {
  ShardId shard = ShardId(0);
  uint64_t generation = 0;
  int64_t rows = 0;
  int64_t files = 0;
  int64_t bytes = 0;
  uint32_t files_checksum = 0;  // of the list of the part's files
  // The checkpoint that the part was built on by links; 0: none, all rows were written.
  uint64_t base_checkpoint_id = 0;
  // The one at the end of that chain, and how many were built on it, one on the other, with this.
  uint64_t full_checkpoint_id = 0;
  int64_t increments = 0;
  int64_t written_bytes = 0;  // for this one
};

struct Manifest {
  uint64_t checkpoint_id = 0;
  int64_t created_unix_ms = 0;  // for people
  uint64_t topology_version = 0;
  uint64_t restore_count = 0;       // how often the cluster had been taken back before
  std::vector<ManifestPart> parts;  // by shard, all of them
  std::vector<ModelSpec> models;
  std::vector<JobRecord> jobs;
  // Of each client that was followed, the last step that is in the cut, on every shard.
  std::vector<ClientStep> steps;
  // Clients that were retired: the cut may hold parts of the last steps that they had in flight.
  std::vector<ClientId> evicted;
  // Not in the file: what the last verification found wrong with it; "": nothing.
  std::string damage = {};
  int64_t stall_us = 0;     // the longest that requests had to wait for the cut of a shard
  int64_t duration_us = 0;  // until all parts were prepared
};

// Of all shards.
int64_t WrittenBytes(const Manifest& manifest);
// Whether some part of it was built on an earlier one.
bool IsIncrement(const Manifest& manifest);

// JSON text and a line with its CRC-32C.
std::string EncodeManifest(const Manifest& manifest);
// Errors: DataLoss naming what is wrong with it; FailedPrecondition when another version has
// written it.
absl::StatusOr<Manifest> DecodeManifest(absl::string_view text);

}  // namespace dslide::coordinator
