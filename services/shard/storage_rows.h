// The rows of a checkpoint in a RocksDB database. Internal to the shard's storage.

#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/ids.h"
#include "services/shard/hash_image.h"
#include "services/shard/shard_model.h"
#include "services/shard/storage_metadata.h"

namespace dslide::shard {

// Where records come from while they are written.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  // [record_bytes], valid until the next call. Each row is asked for once, by one thread.
  virtual absl::Span<const char> Record(size_t table, LocalRow row) = 0;
};

// Records where they lie, of a model that nobody changes meanwhile.
class StoredRecords final : public RecordSource {
 public:
  explicit StoredRecords(const ShardModel& model) : model_(model) {}
  absl::Span<const char> Record(size_t table, LocalRow row) override {
    return model_.tables()[table].store().RecordSpan(row);
  }

 private:
  const ShardModel& model_;
};

// Makes a database in `directory`, which must not exist, with the metadata and all rows, synced.
// Returns the metadata with the digests of what was written. `model`, for its shape, may change its
// rows meanwhile if `records` does not mind.
// Errors: Unavailable with RocksDB's reason.
absl::StatusOr<CheckpointMetadata> WriteRows(const std::string& directory,
                                             CheckpointMetadata metadata, const ShardModel& model,
                                             RecordSource& records);
// Of a model that nobody changes meanwhile.
absl::StatusOr<CheckpointMetadata> WriteRows(const std::string& directory, const ShardModel& model);

// Reads everything back and compares it with the metadata. `model` gives the shape.
// Errors: DataLoss naming what differs.
absl::Status VerifyRows(const std::string& directory, const CheckpointMetadata& metadata,
                        const ShardModel& model);

// Errors: DataLoss.
absl::StatusOr<CheckpointMetadata> ReadCheckpointMetadata(const std::string& directory);

// Reads all of it without a model, and compares counts, sizes and digests with the metadata record.
// Changes nothing. Errors: DataLoss naming what differs.
absl::StatusOr<CheckpointMetadata> InspectRows(const std::string& directory);

// Overwrites all rows of `model`, which was made from `metadata`, and sets its update counts. Its
// hash tables are those saved, `hashes`, or without them (null) made from the rows.
// Errors: DataLoss when a row is missing, surplus, of the wrong size or not finite; the model is
// then good for nothing.
absl::Status ReadRows(const std::string& directory, const CheckpointMetadata& metadata,
                      ShardModel& model, ModelHashes* hashes = nullptr);

}  // namespace dslide::shard
