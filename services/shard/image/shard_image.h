// The whole state of a shard after one record of its log, in a directory:
//
//   state           what is not rows (core_state.h), and which models there are; ends with a
//   CRC-32C model-000/      rows of the first model, as a checkpoint has them (storage_rows.h)
//   delta-000-001/  those that have changed since then, and so on: its increments, if any
//   hashes-000      what its hash tables are made of (hash_image.h)
//   ...
//
// Images of version 1 have no hashes: their tables were made from the rows as they were written.
// Those of version 3 have increments, the same number for each model.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/engine/rows/row_changes.h"
#include "services/shard/state/shard_core.h"
#include "services/shard/storage/hash_image.h"
#include "services/shard/storage/storage_metadata.h"
#include "services/shard/storage/storage_rows.h"

namespace dslide::shard {

// What an image is made of, but the rows.
struct ImageParts {
  uint64_t lsn = 0;
  struct Model {
    std::shared_ptr<const ShardModel> model;  // for its shape
    CheckpointMetadata metadata;
    uint64_t topology_version = 0;
    ModelHashes hashes;
  };
  std::vector<Model> models;
  std::string core_state;
};

// Those of a core as it is now; its hash tables are settled.
ImageParts PartsOf(uint64_t lsn, const ShardCore& core);

// What makes an image an increment of one whose rows are in its directory already (part_base.h).
struct ImageIncrement {
  uint64_t base_checkpoint_id = 0;  // of the checkpoint that it was built on
  int64_t number = 0;               // of increments, with this one
  absl::Span<const std::vector<ChangedRows>> changed = {};  // [models][tables]
};
inline constexpr int64_t kMaxIncrements = 1000;

struct ImageSize {
  int64_t rows = 0;   // of the whole image, with a record
  int64_t bytes = 0;  // written
};

// Writes an image of the parts; `records_of` gives where the rows of model i of them come from.
// increment: null for all rows. Otherwise as WriteImage.
absl::StatusOr<ImageSize> WriteImageOf(
    const std::string& directory, const ImageParts& parts,
    const std::function<std::unique_ptr<RecordSource>(size_t)>& records_of,
    const ImageIncrement* increment = nullptr);

// Writes the state after record `lsn`, reads it back, and makes everything durable but the
// directory's own name. The directory must not exist.
// Errors: Unavailable with the disk's reason; DataLoss when what is read back differs.
absl::Status WriteImage(const std::string& directory, uint64_t lsn, const ShardCore& core);

// What an image begins with.
struct ImageHead {
  bool has_hashes = true;
  int64_t increments = 0;
  uint64_t base_checkpoint_id = 0;  // 0: all rows were written for it
  uint64_t lsn = 0;
  std::vector<std::string> models = {};
};

// Reads that, and no rows. Errors, as of the other readers: DataLoss naming what is damaged;
// FailedPrecondition naming what another version has written.
absl::StatusOr<ImageHead> ReadImageHead(const std::string& directory);

struct ImageContent {
  uint64_t lsn = 0;
  std::vector<std::string> models = {};
  int64_t rows = 0;
};

// Reads all of it without the memory that its rows need, and changes nothing.
// Errors: DataLoss naming what is damaged.
absl::StatusOr<ImageContent> InspectImage(const std::string& directory);

// Restores it into a fresh core, with the limits that were in force. Returns the lsn.
// Errors: DataLoss naming what is damaged; ResourceExhausted when the rows do not fit into the
// core's memory. The core is then good for nothing.
absl::StatusOr<uint64_t> LoadImage(const std::string& directory, ShardCore& core);

}  // namespace dslide::shard
