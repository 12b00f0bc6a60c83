// Where a shard's durable state lies on its disk.
//
//   <data dir>/command_log/
//     high-water, records/        the log (command_log.h)
//     images/                     states after one record each (image_store.h, image_label.h)
//
// The directory appears under its name when it is complete; from then on a part that is missing was
// lost, and nothing is made afresh in its place.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/clock.h"
#include "services/common/files/disk_reserve.h"
#include "services/shard/durability/durable_state.h"
#include "services/shard/log/storage_log.h"

namespace dslide::shard {

struct LogDirectoryOptions {
  DurabilityOptions durability = {};
  LogStorageOptions storage = {};
  DiskReserve* reserve = nullptr;       // as CommandLogOptions has it
  const Clock* clock = &SteadyClock();  // for progress and intervals; outlives the state
};

// Thread safety: functions that only read, from any thread.
class LogDirectory {
 public:
  static bool Exists(const std::string& data_dir);

  // The directory and its images that count, newest first. Errors of Images(): DataLoss when there
  // is none.
  static std::string PathIn(const std::string& data_dir);
  static std::string ImagePathIn(const std::string& data_dir, const LogImage& image);
  static absl::StatusOr<std::vector<LogImage>> Images(const std::string& data_dir);

  // As DurableState::Restore(). Nothing has changed after an error.
  static absl::StatusOr<std::unique_ptr<DurableState>> Restore(
      const std::string& data_dir, const LogDirectoryOptions& options,
      const DurableState::MakeCore& make_core, std::unique_ptr<ShardCore>* core);

  // Makes the directory, whose first image is `core`.
  // Errors: Unavailable with the disk's reason.
  static absl::StatusOr<std::unique_ptr<DurableState>> Create(const std::string& data_dir,
                                                              const LogDirectoryOptions& options,
                                                              const ShardCore& core);

  // Removes the directory: its name first, so that half of it is never found.
  static absl::Status Remove(const std::string& data_dir);
};

}  // namespace dslide::shard
