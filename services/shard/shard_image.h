// The whole state of a shard after one record of its log, in a directory:
//
//   state        what is not rows (core_state.h), and which models there are; ends with a CRC-32C
//   model-000/   rows of the first model, as a checkpoint has them (storage_rows.h)
//   ...

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/shard/shard_core.h"

namespace dslide::shard {

// Writes the state after record `lsn`, reads it back, and makes everything durable but the
// directory's own name. The directory must not exist.
// Errors: Unavailable with the disk's reason; DataLoss when what is read back differs.
absl::Status WriteImage(const std::string& directory, uint64_t lsn, const ShardCore& core);

// Restores it into a fresh core, with the limits that were in force. Returns the lsn.
// Errors: DataLoss naming what is damaged; ResourceExhausted when the rows do not fit into the
// core's memory. The core is then good for nothing.
absl::StatusOr<uint64_t> LoadImage(const std::string& directory, ShardCore& core);

}  // namespace dslide::shard
