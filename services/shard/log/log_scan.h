// What a command log on the disk is worth: whole, torn at its end by a crash, or damaged.
//
// First RocksDB opens the log strictly, and every record must fit to its neighbours and the end to
// the high-water mark. Only when RocksDB refuses is the log read up to the damage. The rest is a
// torn end, which nobody was promised, when no whole record lies behind the damage and nothing
// below the high-water mark is missing. Everything else is damage, and is refused.

#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/shard/log/high_water.h"
#include "services/shard/log/log_chain.h"
#include "services/shard/log/log_record.h"
#include "services/shard/log/storage_log.h"

namespace dslide::shard {

// A log's directory has the file "high-water" and the database "records".
std::string HighWaterPath(const std::string& directory);
std::string RecordsPath(const std::string& directory);

struct LogScan {
  LogExtent extent;
  HighWater high_water;
  // Bytes behind the last record were cut off by a crash: they must go before the log is continued.
  bool torn = false;
};

// Reads the whole log and changes nothing. `visit` is called for every record in order; what it
// was called for counts only when the scan succeeds.
// Errors: DataLoss naming the damage and the records lost; FailedPrecondition for what another
// version has written; Unavailable when a file cannot be read; those of `visit`.
absl::StatusOr<LogScan> ScanLog(const std::string& directory, const LogStorageOptions& options,
                                absl::FunctionRef<absl::Status(const LogRecord&)> visit);
absl::StatusOr<LogScan> ScanLog(const std::string& directory, const LogStorageOptions& options);

// Checks the records of an open database from `first` on: each whole, in its place and chained to
// the one before. Errors: DataLoss; those of `visit`.
absl::StatusOr<LogExtent> WalkLog(const LogStorage& storage, uint64_t first,
                                  absl::FunctionRef<absl::Status(const LogRecord&)> visit);

}  // namespace dslide::shard
