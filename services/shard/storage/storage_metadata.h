// The metadata record of a checkpoint: what it is a checkpoint of, and what reading it must give.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/ids.h"
#include "core/partition/slot_map.h"
#include "core/spec/model_spec.h"
#include "services/shard/state/shard_model.h"

namespace dslide::shard {

inline constexpr int64_t kCheckpointFormat = 1;

struct CheckpointTable {
  std::string name;
  int64_t rows = 0;          // on this shard
  int64_t present = 0;       // of those, with a record: all of a table of floats
  int64_t record_bytes = 0;  // 0: a table of records
  int64_t stored_bytes = 0;  // of a table of records: RecordStore::stored_bytes
  RowPrecision precision = RowPrecision::kF32;
  int64_t applied_steps = 0;
  uint64_t digest = 0;  // StoredRows::Digest
  // Of an increment: what its own database has of all that, rows that have become absent included.
  int64_t changed_rows = 0;
  uint64_t changed_digest = 0;
};

struct CheckpointMetadata {
  ModelSpec spec;
  ShardId shard = ShardId(0);
  std::vector<SlotMap> slot_maps;
  std::vector<CheckpointTable> tables;  // as in spec
  // 0: the database has all rows; else those that have changed since the increment before it.
  int64_t increment = 0;
};

// The metadata of a model as it is now, without digests: those come from what is written.
CheckpointMetadata DescribeForCheckpoint(const ShardModel& model);

// Memory that the records of a model take, to be had before they are read.
int64_t RecordMemory(const CheckpointMetadata& metadata);

// Whether the model's tables have the digests that were written: a pass over all rows.
// Errors: DataLoss naming the table.
absl::Status CheckDigests(const ShardModel& model, const CheckpointMetadata& metadata);

// JSON text followed by its CRC-32C (u32, little-endian).
std::string EncodeMetadata(const CheckpointMetadata& metadata);
// Errors: DataLoss naming what is wrong (checksum, a field); FailedPrecondition for another format.
absl::StatusOr<CheckpointMetadata> DecodeMetadata(absl::string_view bytes);

}  // namespace dslide::shard
