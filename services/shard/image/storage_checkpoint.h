// Full checkpoints of models in a directory of this shard.
//
//   <data dir>/LOCK                      held while a process uses the directory
//   <data dir>/<model>/<checkpoint>/     one RocksDB database: complete or absent
//   <data dir>/<model>/.tmp-<checkpoint> being written; swept at the next start
//
// Format 2 (docs/operate/checkpoint.md): key "m" has the metadata record, JSON text and the CRC-32C
// of it; key "r" + table number (u16, big-endian) + global row id (u32, big-endian) has the row's
// record as it lies in memory (little-endian). Nothing is compressed; every block has a checksum.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/shard/state/shard_core.h"
#include "services/shard/state/shard_model.h"

namespace dslide::shard {

// The checkpoint that a clean stop writes and a start loads.
inline constexpr char kLatestCheckpoint[] = "latest";

struct CheckpointSize {
  int64_t rows = 0;
  int64_t bytes = 0;
};

// Not thread-safe; the thread that owns the models calls it.
class CheckpointStore {
 public:
  // Makes the directory when it is missing, locks it, and removes what a crash has left half-done.
  // Errors: FailedPrecondition when another process has it; Unavailable with the system's reason.
  static absl::StatusOr<std::unique_ptr<CheckpointStore>> Open(const std::string& data_dir);
  ~CheckpointStore();

  // Writes all rows of the model, reads them back, and only then puts the checkpoint in place of an
  // earlier one of that name. Names are checked by the caller ([a-z0-9-]{1,64}).
  // Errors: Unavailable with the disk's reason; DataLoss when what is read back differs. An earlier
  // checkpoint then stays.
  absl::StatusOr<CheckpointSize> Write(const ShardModel& model, const std::string& checkpoint);

  // Makes a model from a checkpoint. `core` gives memory and threads and stays as it is, except
  // that a model of that name there must fit: same spec (but for training), same slots.
  // Errors: NotFound UNKNOWN_CHECKPOINT; FailedPrecondition SLOTS_DIFFER, MODEL_DIFFERS; DataLoss
  // naming what differs from what was written; ResourceExhausted OUT_OF_MEMORY.
  absl::StatusOr<std::unique_ptr<ShardModel>> Load(ShardCore& core, const std::string& name,
                                                   const std::string& checkpoint);

  // Whether `data_dir`, which need not exist or be open, has a checkpoint that Open() would leave
  // under that name: also one that was being replaced when the process ended.
  static bool Exists(const std::string& data_dir, const std::string& model,
                     const std::string& checkpoint);

  // The models that have a checkpoint of that name.
  absl::StatusOr<std::vector<std::string>> ModelsWith(const std::string& checkpoint) const;

  // Removes a checkpoint; fine when there is none.
  absl::Status Remove(const std::string& model, const std::string& checkpoint);

  const std::string& data_dir() const { return data_dir_; }

 private:
  CheckpointStore(std::string data_dir, int lock_file);

  const std::string data_dir_;
  const int lock_file_;
};

}  // namespace dslide::shard
