// The rows of a checkpoint in RocksDB databases: one with all of them, and perhaps increments, each
// with the rows that have changed since the one before. Rows of a table of records, and those of
// retired labels in a head, may be absent: nothing stands for them where all rows are, an empty
// record in an increment for one that was there before. Internal to the shard's storage.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/engine/rows/row_changes.h"
#include "services/shard/state/load_progress.h"
#include "services/shard/state/shard_model.h"
#include "services/shard/storage/hash_image.h"
#include "services/shard/storage/storage_metadata.h"

namespace dslide::shard {

class RowDatabaseReader;
class SummedFiles;

// Where records come from while they are written.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  // Valid until the next call; empty: absent. Each row is asked for once, by one thread.
  virtual absl::Span<const char> Record(size_t table, LocalRow row) = 0;
  // What it adds to the table's digest; instead of Record().
  virtual uint64_t Digest(size_t table, LocalRow row) = 0;
  // Whether some of what was asked for is not what was to be written.
  virtual bool lost() const { return false; }
};

// Records where they lie, of a model that nobody changes meanwhile.
class StoredRecords final : public RecordSource {
 public:
  explicit StoredRecords(const ShardModel& model) : model_(model) {}
  absl::Span<const char> Record(size_t table, LocalRow row) override {
    return model_.tables()[table].stored().RecordSpan(row);
  }
  uint64_t Digest(size_t table, LocalRow row) override {
    const StoredRows& stored = model_.tables()[table].stored();
    return stored.DigestOf(row, stored.RecordSpan(row));
  }

 private:
  const ShardModel& model_;
};

// Makes a database in `directory`, which must not exist, with the metadata and all rows, synced.
// Returns the metadata with the digests of what was written. `model`, for its shape, may change its
// rows meanwhile if `records` does not mind.
// Errors: Unavailable with RocksDB's reason; Cancelled when the source has lost rows.
absl::StatusOr<CheckpointMetadata> WriteRows(const std::string& directory,
                                             CheckpointMetadata metadata, const ShardModel& model,
                                             RecordSource& records);

// The same with those rows only that have changed since the increment before metadata.increment,
// >= 1; changed: [tables]. Counts and digests of the metadata are still of all rows, each of which
// is read once.
absl::StatusOr<CheckpointMetadata> WriteChangedRows(const std::string& directory,
                                                    CheckpointMetadata metadata,
                                                    const ShardModel& model, RecordSource& records,
                                                    absl::Span<const ChangedRows> changed);

// Reads one database back through `files`, of all rows or of an increment, and compares it with its
// metadata. Errors: DataLoss naming what differs.
absl::Status VerifyRows(const std::string& directory, const CheckpointMetadata& metadata,
                        SummedFiles* files);

// Of the newest database. Errors: DataLoss.
absl::StatusOr<CheckpointMetadata> ReadCheckpointMetadata(RowDatabaseReader& reader);

// directories: all rows, then the increments 1, 2, ...; at least one.
// Reads all of it without a model, and compares counts, sizes and digests with the metadata record
// of the newest. Changes nothing. Errors: DataLoss naming what differs.
absl::StatusOr<CheckpointMetadata> InspectRows(const std::vector<std::string>& directories);

// progress: where rows are counted; may be null.
// Overwrites all rows of `model`, which was made from the `metadata` of what is read, and sets its
// update counts. Its hash tables are those saved, `hashes`, or without them (null) made from the
// rows. Errors: DataLoss when a row is missing, surplus, of the wrong size or not finite; the model
// is then good for nothing.
absl::Status ReadRows(RowDatabaseReader& reader, const CheckpointMetadata& metadata,
                      ShardModel& model, ModelHashes* hashes = nullptr,
                      LoadProgress* progress = nullptr);

}  // namespace dslide::shard
