// The data directory of a shard: the state that a start takes from it, and what a stop leaves
// there.
//
//   LOCK           held while a process uses the directory
//   images/        checkpoints of models and parts of cluster checkpoints; "latest" of all models,
//                  and what a stop keeps besides: mode checkpoint
//   command_log/   the command log and its images: the log modes
//
// A start in another mode than the last one takes the state over.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/net/metrics/metrics.h"
#include "core/spec/model_spec.h"
#include "services/common/files/directory_lock.h"
#include "services/common/files/disk_reserve.h"
#include "services/shard/durability/durability.h"
#include "services/shard/durability/log_directory.h"
#include "services/shard/image/image_store.h"
#include "services/shard/image/model_checkpoints.h"
#include "services/shard/state/shard_core.h"

namespace dslide::shard {

struct StateDirectoryOptions {
  // "": nothing is kept; only rows_from is read then.
  std::string path;
  // Another data directory, whose checkpoints "latest" are loaded instead of those of `path`. Not a
  // byte there is written, and no lock is taken: it may be read-only, and be read by many.
  std::string rows_from = {};
  DurabilityOptions durability;
  int32_t shard_id = -1;           // that the rows must be of; -1: any
  bool write_latest = true;        // false: nothing is written at the stop
  int64_t disk_reserve_bytes = 0;  // kept for a full disk; 0: none
  const Clock* clock = nullptr;
  std::function<ShardCoreOptions()> core;  // of the core that is made
};

// Thread safety: what is constant after Open() from any thread; the rest as its parts say.
class StateDirectory {
 public:
  // Fills the empty `core`, or replaces it. Errors: those of DataDirError(), with the cause and the
  // remedy.
  static absl::StatusOr<std::unique_ptr<StateDirectory>> Open(StateDirectoryOptions options,
                                                              Metrics& metrics,
                                                              std::unique_ptr<ShardCore>& core);

  const std::string& path() const { return options_.path; }
  // Null without a path.
  ImageStore* images() { return images_.get(); }
  ModelCheckpoints* checkpoints() { return checkpoints_.get(); }
  DurableState* durable() { return durable_.get(); }  // null in mode checkpoint

  // Of the models that were loaded; -1: none.
  int32_t shard() const { return shard_; }
  const std::vector<ModelSpec>& models() const { return models_; }
  // The rows may be older than what was confirmed: the last process crashed in mode checkpoint.
  bool stale() const { return stale_; }
  // The clients of before are known, with the rows that they changed.
  bool resumed() const { return resumed_; }

  // Leaves the state for the next start. Nothing else uses the core any more.
  absl::Status WriteAtStop(ShardCore& core);

  // An error of this directory, as callers are to see it.
  absl::Status Explained(const absl::Status& status) const;

 private:
  explicit StateDirectory(StateDirectoryOptions options) : options_(std::move(options)) {}

  absl::Status Load(Metrics& metrics, std::unique_ptr<ShardCore>& core);
  absl::Status LoadCheckpoints(const ModelCheckpoints& checkpoints, ShardCore& core);
  absl::Status LoadRowsFrom(ShardCore& core);
  // Clients, answers and open steps as they were when the last process stopped in good order; then
  // the image that tells it is removed. Errors: DataLoss when it does not belong to the rows.
  absl::Status TakeStopState(ShardCore& core);
  absl::Status RestoreLogged(std::unique_ptr<ShardCore>& core);
  // Turns a log mode's state into checkpoints, for mode checkpoint.
  absl::Status TakeOverLogged(std::unique_ptr<ShardCore>& core);
  absl::Status RecordModel(const ShardModel& model);
  absl::Status WriteLatest(const ShardCore& core);
  bool logs() const { return options_.durability.mode != Durability::kCheckpoint; }
  LogDirectoryOptions DurableOptions() const;

  const StateDirectoryOptions options_;
  std::unique_ptr<DirectoryLock> lock_;
  std::unique_ptr<ImageStore> images_;
  std::unique_ptr<ModelCheckpoints> checkpoints_;
  std::unique_ptr<DiskReserve> reserve_;
  std::unique_ptr<DurableState> durable_;
  std::vector<ModelSpec> models_;
  int32_t shard_ = -1;
  bool stale_ = false;
  bool resumed_ = false;
};

}  // namespace dslide::shard
