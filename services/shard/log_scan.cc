#include "services/shard/log_scan.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace dslide::shard {
namespace {

absl::Status Ignore(const LogRecord&) { return absl::OkStatus(); }

std::string Range(uint64_t first, uint64_t last) {
  return first == last ? absl::StrCat("record ", first)
                       : absl::StrCat("records ", first, " to ", last);
}

// What the high-water mark says must be there.
absl::Status CheckBounds(const LogExtent& extent, const HighWater& mark) {
  if (extent.last < mark.durable) {
    return absl::DataLossError(absl::StrCat("the log ends at record ", extent.last, ", but ",
                                            Range(extent.last + 1, mark.durable),
                                            " had been made durable"));
  }
  if (extent.records > 0 && extent.first > mark.first) {
    return absl::DataLossError(absl::StrCat("the log begins at record ", extent.first, ": ",
                                            Range(mark.first, extent.first - 1), " are missing"));
  }
  return absl::OkStatus();
}

// A record behind the end was overtaken by damage that RocksDB took for the end.
absl::Status CheckNothingBeyond(const LogExtent& extent, const std::string& records) {
  ASSIGN_OR_RETURN(const uint64_t beyond, FindRecordAbove(extent.last, records));
  if (beyond == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "the log is damaged behind record ", extent.last, ", and record ", beyond,
      " is whole behind the damage: ", Range(extent.last + 1, beyond), " would be lost"));
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
  absl::Status whole = CheckBounds(scan.extent, scan.high_water);
  if (whole.ok()) whole = CheckNothingBeyond(scan.extent, records);
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
  LogExtent extent;
  RETURN_IF_ERROR(
      storage.ForEach(first, [&](uint64_t lsn, absl::string_view bytes) -> absl::Status {
        const absl::StatusOr<LogRecord> record = DecodeLogRecord(bytes);
        if (!record.ok()) {
          return absl::DataLossError(
              absl::StrCat(Range(lsn, lsn), ": ", record.status().message()));
        }
        const bool whole = bytes.size() == kLogFrameBytes + record->payload.size();
        if (record->lsn != lsn || !whole) {
          return absl::DataLossError(
              absl::StrCat("in the place of ", Range(lsn, lsn), " lies record ", record->lsn));
        }
        if (extent.records > 0 && lsn != extent.last + 1) {
          return absl::DataLossError(absl::StrCat(Range(extent.last + 1, lsn - 1), " are missing"));
        }
        if (extent.records > 0 ? record->previous != extent.last_checksum
                               : lsn == 1 && record->previous != 0) {
          return absl::DataLossError(
              absl::StrCat(Range(lsn, lsn),
                           " does not follow the one before it: it belongs to "
                           "another log"));
        }
        if (extent.records++ == 0) extent.first = lsn;
        extent.last = lsn;
        extent.last_checksum = record->checksum;
        extent.bytes += static_cast<int64_t>(bytes.size());
        return visit(*record);
      }));
  return extent;
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
  RETURN_IF_ERROR(CheckBounds(scan.extent, scan.high_water));
  RETURN_IF_ERROR(CheckNothingBeyond(scan.extent, RecordsPath(directory)));
  return scan;
}

absl::StatusOr<LogScan> ScanLog(const std::string& directory, const LogStorageOptions& options) {
  return ScanLog(directory, options, Ignore);
}

}  // namespace dslide::shard
