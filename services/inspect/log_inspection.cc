#include "services/inspect/log_inspection.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/system/files/system_error.h"
#include "core/wire/log/logged_command.h"
#include "services/inspect/directory_use.h"
#include "services/shard/log/log_scan.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr char kDirectory[] = "command_log";

// A log that grows while it is read looks damaged.
absl::Status CheckUnused(const fs::path& data_dir) {
  if (!ShardUses(data_dir.string())) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("a shard uses ", data_dir.string(), ": stop it, or inspect a copy"));
}

}  // namespace

absl::StatusOr<LogInspection> InspectCommandLog(const std::string& path) {
  fs::path directory = path;
  if (directory.filename().empty()) directory = directory.parent_path();
  if (directory.filename() != kDirectory) directory /= kDirectory;
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    if (error == std::errc::permission_denied) {
      return SystemError("read", directory.string(), error.value());
    }
    return absl::NotFoundError(
        absl::StrCat("there is no command log in ", path,
                     ": name the data directory of a shard with --durability log or log-periodic"));
  }
  RETURN_IF_ERROR(CheckUnused(directory.parent_path()));
  LogInspection inspection;
  inspection.path = directory.string();
  const absl::StatusOr<shard::LogScan> scan =
      shard::ScanLog(inspection.path, {}, [&](const shard::LogRecord& record) {
        ++inspection.kinds[wire::LoggedKindName(static_cast<wire::LoggedKind>(record.kind))];
        return absl::OkStatus();
      });
  if (!scan.ok()) {
    return absl::Status(scan.status().code(),
                        absl::StrCat(inspection.path, ": ", scan.status().message()));
  }
  inspection.first = scan->extent.first;
  inspection.last = scan->extent.last;
  inspection.records = scan->extent.records;
  inspection.bytes = scan->extent.bytes;
  inspection.high_water = scan->high_water.durable;
  inspection.torn = scan->torn;
  return inspection;
}

}  // namespace dslide
