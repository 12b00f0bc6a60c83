#include "services/shard/log/log_scan.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace dslide::shard {
namespace {

absl::Status IgnoreRecord(const LogRecord&) { return absl::OkStatus(); }

// Whether the log ends where it must.
absl::Status CheckEnd(const LogScan& scan, const std::string& records) {
  RETURN_IF_ERROR(CheckLogBounds(scan.extent, scan.high_water));
  ASSIGN_OR_RETURN(const uint64_t beyond, FindRecordAbove(scan.extent.last, records));
  return CheckNothingBeyond(scan.extent, beyond);
}

// The part in front of damage; whether the damage is no more than a torn end.
absl::StatusOr<LogScan> ScanTorn(const std::string& directory, const LogStorageOptions& options,
                                 const absl::Status& strict,
                                 absl::FunctionRef<absl::Status(const LogRecord&)> visit) {
  const std::string records = RecordsPath(directory);
  absl::StatusOr<std::unique_ptr<LogStorage>> storage =
      LogStorage::OpenToRead(records, LogTail::kCutAtDamage, options);
  RETURN_IF_ERROR(storage.status());
  LogScan scan;
  ASSIGN_OR_RETURN(scan.high_water, HighWaterFile::Read(HighWaterPath(directory)));
  ASSIGN_OR_RETURN(scan.extent, WalkLog(**storage, 0, visit));
  const absl::Status whole = CheckEnd(scan, records);
  if (absl::IsDataLoss(whole)) {
    return absl::DataLossError(absl::StrCat(whole.message(), " (", strict.message(), ")"));
  }
  RETURN_IF_ERROR(whole);
  scan.torn = true;
  return scan;
}

}  // namespace

std::string HighWaterPath(const std::string& directory) {
  return absl::StrCat(directory, "/high-water");
}

std::string RecordsPath(const std::string& directory) {
  return absl::StrCat(directory, "/records");
}

absl::StatusOr<LogExtent> WalkLog(const LogStorage& storage, uint64_t first,
                                  absl::FunctionRef<absl::Status(const LogRecord&)> visit) {
  LogChain chain;
  RETURN_IF_ERROR(storage.ForEach(
      first, [&](uint64_t lsn, absl::string_view bytes) { return chain.Add(lsn, bytes, visit); }));
  return chain.extent();
}

absl::StatusOr<LogScan> ScanLog(const std::string& directory, const LogStorageOptions& options,
                                absl::FunctionRef<absl::Status(const LogRecord&)> visit) {
  absl::StatusOr<std::unique_ptr<LogStorage>> storage =
      LogStorage::OpenToRead(RecordsPath(directory), LogTail::kMustBeWhole, options);
  if (absl::IsDataLoss(storage.status())) {
    return ScanTorn(directory, options, storage.status(), visit);
  }
  RETURN_IF_ERROR(storage.status());
  LogScan scan;
  ASSIGN_OR_RETURN(scan.high_water, HighWaterFile::Read(HighWaterPath(directory)));
  ASSIGN_OR_RETURN(scan.extent, WalkLog(**storage, 0, visit));
  RETURN_IF_ERROR(CheckEnd(scan, RecordsPath(directory)));
  return scan;
}

absl::StatusOr<LogScan> ScanLog(const std::string& directory, const LogStorageOptions& options) {
  return ScanLog(directory, options, IgnoreRecord);
}

}  // namespace dslide::shard
