// Copies of cluster checkpoints in a directory of their own, off the shards' disks:
//
//   <dir>/checkpoint-<20 digits>/MANIFEST      the coordinator's manifest as it is
//   <dir>/checkpoint-<20 digits>/shard-<n>/    a shard's part as it is: an image, and FILES
//   <dir>/checkpoint-<20 digits>/assets/<model>/   names and other texts of a model, and FILES
//   <dir>/.tmp-checkpoint-<20 digits>/         being written; the next copy removes it
//
// The rename of the directory, after everything in it is durable, is what makes a copy.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/coordinator_client.h"
#include "client/cpp/shard_client.h"

namespace dslide::cli {

// A cluster whose checkpoints are copied, and brought back.
struct CopyPeers {
  CoordinatorClient* coordinator = nullptr;
  std::function<absl::StatusOr<std::unique_ptr<ShardClient>>(const ShardInfo&)> shard;
};

// Assets of a model, as the manifest names them.
struct CopiedAssets {
  std::string model;
  uint32_t checksum = 0;
};

struct CheckpointCopy {
  std::string path;
  uint64_t checkpoint_id = 0;
  std::string manifest = {};                  // the text
  std::vector<uint32_t> files_checksum = {};  // of each shard's list of files, by shard
  std::vector<CopiedAssets> assets = {};
};

struct CopySize {
  uint64_t checkpoint_id = 0;
  std::string path = {};
  int64_t files = 0;  // those that were moved
  int64_t bytes = 0;
};

// Copies a committed checkpoint (checkpoint_id 0: the newest) below `directory`, which is made when
// it is absent. Every file is compared with its checksum as it arrives. A copy that is there and
// whole stays: then nothing is moved. Errors: those of the calls; DataLoss naming the shard and
// file that differ; AlreadyExists when something else is in the copy's place; Unavailable of the
// disk.
absl::StatusOr<CopySize> CopyCheckpoint(const CopyPeers& peers, uint64_t checkpoint_id,
                                        const std::string& directory);

// The copy in `directory`: itself, or the one of that checkpoint_id (0: the newest) below it. Reads
// the manifest alone. Errors: NotFound; DataLoss naming what is damaged.
absl::StatusOr<CheckpointCopy> OpenCopy(const std::string& directory, uint64_t checkpoint_id);

// Removes all copies below `directory` but `keep`: the last one that was made, whatever its number,
// and the newest others. Returns the numbers of those that are gone, the newest first. A copy whose
// manifest is damaged stays and is not counted. keep >= 1. Errors: Unavailable of the disk.
absl::StatusOr<std::vector<uint64_t>> PruneCopies(const std::string& directory, size_t keep,
                                                  uint64_t last);

// Reads every file of it. Errors: DataLoss naming what differs.
absl::StatusOr<CopySize> VerifyCopy(const CheckpointCopy& copy);

// Gives the shards the parts that they lack, or have damaged, and the coordinator the manifest. The
// cluster can be taken back to it then. Errors: those of the calls; FailedPrecondition when it is
// of another number of shards; DataLoss when the copy is damaged.
absl::StatusOr<CopySize> SendCopy(const CopyPeers& peers, const CheckpointCopy& copy);

}  // namespace dslide::cli
