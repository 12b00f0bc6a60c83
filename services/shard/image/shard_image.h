// The state of a shard at one moment, or a part of it, in a directory:
//
//   state           what is not rows (core_state.h), and which models there are; ends with a
//   CRC-32C model-000/      rows of the first model (storage_rows.h) delta-000-001/  those that
//   have changed since then, and so on: its increments, if any; the same
//                   number for each model
//   hashes-000      what its hash tables are made of (hash_image.h), unless they are made of the
//   rows
//   ...
//   FILES           every other file with its size and CRC-32C; ends with its own, which so pins
//                   every byte

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/engine/rows/row_changes.h"
#include "core/system/file_list.h"
#include "services/shard/image/file_list.h"
#include "services/shard/state/shard_core.h"
#include "services/shard/storage/hash_image.h"
#include "services/shard/storage/storage_files.h"
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
    std::optional<ModelHashes> hashes = {};  // nothing: made of the rows when they are loaded
  };
  std::vector<Model> models;
  std::string core_state;
  // Without models: ShardCore::Digest() of the rows that the state belongs to.
  uint64_t rows_digest = 0;
};

// Those of a core as it is now; its hash tables are settled.
ImageParts PartsOf(uint64_t lsn, const ShardCore& core);
// The same without rows, which are elsewhere. A pass over them.
ImageParts PartsWithoutRows(const ShardCore& core);

// What makes an image an increment of one whose rows are in its directory already (part_base.h).
struct ImageIncrement {
  uint64_t base_checkpoint_id = 0;  // of the checkpoint that it was built on
  int64_t number = 0;               // of increments, with this one
  absl::Span<const std::vector<ChangedRows>> changed = {};  // [models][tables]
  absl::Span<const ListedFile> linked = {};                 // those that are there already
};
inline constexpr int64_t kMaxIncrements = 1000;

struct ImageSize {
  int64_t rows = 0;   // of the whole image, with a record
  int64_t bytes = 0;  // written, without what was linked
  FileListSummary files = {};
  uint64_t base_checkpoint_id = 0;  // of the checkpoint that it was built on; 0: none
};

// Writes an image of the parts, reads it back, lists its files, and makes everything durable but
// the directory's own name. `records_of` gives where the rows of model i of them come from.
// directory: must not exist, unless there is an increment. increment: null for all rows.
// Errors: Unavailable with the disk's reason; DataLoss when what is read back differs; Cancelled.
absl::StatusOr<ImageSize> WriteImageOf(
    const std::string& directory, const ImageParts& parts,
    const std::function<std::unique_ptr<RecordSource>(size_t)>& records_of,
    const ImageIncrement* increment = nullptr);

// The state after record `lsn`, of a core that nobody changes meanwhile.
absl::StatusOr<ImageSize> WriteImage(const std::string& directory, uint64_t lsn,
                                     const ShardCore& core);

// What an image begins with.
struct ImageHead {
  int64_t increments = 0;
  uint64_t base_checkpoint_id = 0;  // 0: all rows were written for it
  uint64_t lsn = 0;
  uint64_t rows_digest = 0;  // as ImageParts has it
  struct Model {
    std::string name;
    uint64_t topology_version = 0;
    bool has_hashes = false;
  };
  std::vector<Model> models = {};
};

// Reads that, and no rows. Errors, as of the other readers: DataLoss naming what is damaged;
// FailedPrecondition naming what another version has written.
absl::StatusOr<ImageHead> ReadImageHead(const std::string& directory);
// The same as a part of reading all of it.
absl::StatusOr<ImageHead> ReadImageHead(SummedFiles& files);
// Whether all files, those that were read as they were read, are what the image's list of them
// says. The last call. Errors: those of VerifyFileList().
absl::StatusOr<FileListSummary> CheckFilesRead(SummedFiles& files);

// Where an image has all the rows of its model of that number.
std::string ModelPath(const std::string& directory, size_t number);

struct ImageContent {
  uint64_t lsn = 0;
  std::vector<std::string> models = {};
  int64_t rows = 0;
};

// Reads all of it without the memory that its rows need, and changes nothing.
// Errors: DataLoss naming what is damaged.
absl::StatusOr<ImageContent> InspectImage(const std::string& directory);

struct LoadedImage {
  uint64_t lsn = 0;
  FileListSummary files = {};
};

// Restores it into a fresh core, with the limits that were in force; without models into one that
// has its rows and has applied nothing yet. Reads each file once, and compares it with the list.
// Errors: DataLoss naming what is damaged; ResourceExhausted when the rows do not fit into the
// core's memory. The core is then good for nothing.
absl::StatusOr<LoadedImage> LoadImage(const std::string& directory, ShardCore& core);

}  // namespace dslide::shard
