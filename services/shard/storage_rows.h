// The rows of a checkpoint in a RocksDB database. Internal to the shard's storage.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/shard/shard_model.h"
#include "services/shard/storage_metadata.h"

namespace dslide::shard {

// Makes a database in `directory`, which must not exist, with the metadata and all rows, synced.
// Errors: Unavailable with RocksDB's reason.
absl::Status WriteRows(const std::string& directory, const CheckpointMetadata& metadata,
                       const ShardModel& model);

// Reads everything back and compares it with the model. Errors: DataLoss naming what differs.
absl::Status VerifyRows(const std::string& directory, const CheckpointMetadata& metadata,
                        const ShardModel& model);

// Errors: DataLoss.
absl::StatusOr<CheckpointMetadata> ReadCheckpointMetadata(const std::string& directory);

// Overwrites all rows of `model`, which was made from `metadata`, and sets its update counts.
// Errors: DataLoss when a row is missing, surplus, of the wrong size or not finite; the model is
// then good for nothing.
absl::Status ReadRows(const std::string& directory, const CheckpointMetadata& metadata,
                      ShardModel& model);

}  // namespace dslide::shard
