#include "services/shard/log/command_log.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/retry_after.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"
#include "core/system/failpoint.h"
#include "core/system/log.h"
#include "core/wire/log/logged_command.h"
#include "services/shard/log/log_record.h"

namespace dslide::shard {
namespace {

// Also between two attempts to open the log again.
constexpr absl::Duration kDiskFullRetry = absl::Seconds(1);

absl::Status Ignore(const LogRecord&) { return absl::OkStatus(); }

// What nobody is told of: it may use what the disk's reserve has left behind.
bool IsOfTheShardItself(uint8_t kind) {
  return kind == static_cast<uint8_t>(wire::LoggedKind::kSettle) ||
         kind == static_cast<uint8_t>(wire::LoggedKind::kLimits) ||
         kind == static_cast<uint8_t>(wire::LoggedKind::kOwnership);
}

absl::Status Failed(const absl::Status& why) {
  return StatusWithReason(
      absl::StatusCode::kUnavailable, reason::kLogFailed,
      absl::StrCat("the command log has failed, whether this was kept is unknown: the shard must "
                   "be restarted (",
                   why.message(), ")"));
}

}  // namespace

absl::Status CommandLog::Create(const std::string& directory, const CommandLogOptions& options) {
  RETURN_IF_ERROR(HighWaterFile::Create(HighWaterPath(directory), HighWater()));
  return LogStorage::Create(RecordsPath(directory), options.storage).status();
}

absl::StatusOr<std::unique_ptr<CommandLog>> CommandLog::Open(
    const std::string& directory, const CommandLogOptions& options,
    absl::FunctionRef<absl::Status(const LogRecord&)> visit) {
  ASSIGN_OR_RETURN(const LogScan scan, ScanLog(directory, options.storage, visit));
  if (scan.torn) {
    LogWarning("cutting off the torn end of the command log",
               {{"path", directory}, {"last", scan.extent.last}});
  }
  const LogTail tail = scan.torn ? LogTail::kCutAtDamage : LogTail::kMustBeWhole;
  ASSIGN_OR_RETURN(std::unique_ptr<LogStorage> storage,
                   LogStorage::Open(RecordsPath(directory), tail, options.storage));
  DSLIDE_FAILPOINT("shard.log.opened");
  // Opening has moved records: what counts is what is there now.
  const uint64_t last = scan.extent.last;
  ASSIGN_OR_RETURN(const LogExtent extent, WalkLog(*storage, last, Ignore));
  if (extent.last != last || extent.last_checksum != scan.extent.last_checksum) {
    return absl::DataLossError(
        absl::StrCat("opened, the log ends at record ", extent.last, ", it was read up to ", last));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<HighWaterFile> high_water,
                   HighWaterFile::Open(HighWaterPath(directory)));
  // Everything recovered lies in synced table files.
  RETURN_IF_ERROR(high_water->SetDurable(last));
  RETURN_IF_ERROR(high_water->Sync());
  return std::unique_ptr<CommandLog>(
      new CommandLog(options, std::move(storage), std::move(high_water), scan));
}

absl::StatusOr<std::unique_ptr<CommandLog>> CommandLog::Open(const std::string& directory,
                                                             const CommandLogOptions& options) {
  return Open(directory, options, Ignore);
}

CommandLog::CommandLog(const CommandLogOptions& options, std::unique_ptr<LogStorage> storage,
                       std::unique_ptr<HighWaterFile> high_water, LogScan found)
    : options_(options),
      storage_(std::move(storage)),
      found_(found),
      last_checksum_(found.extent.last_checksum),
      high_water_(std::move(high_water)),
      mark_synced_(options.clock->Now()),
      appended_(found.extent.last),
      durable_(found.extent.last) {}

CommandLog::~CommandLog() {
  {
    const absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void CommandLog::Start(CommandLogHooks hooks) {
  hooks_ = std::move(hooks);
  thread_ = std::thread([this] { SyncLoop(); });
}

absl::StatusOr<uint64_t> CommandLog::Append(uint8_t kind,
                                            absl::Span<const absl::string_view> payload) {
  int64_t bytes = kLogFrameBytes;
  for (const absl::string_view piece : payload) bytes += static_cast<int64_t>(piece.size());
  if (bytes > kLogFrameBytes + kMaxLogPayload) {
    return StatusWithReason(
        absl::StatusCode::kInvalidArgument, reason::kOverLimit,
        absl::StrCat("the request has ", bytes, " bytes, the command log takes ", kMaxLogPayload,
                     ": send it in several calls"));
  }
  uint64_t lsn = 0;
  {
    const absl::MutexLock lock(&mu_);
    if (!failure_.ok()) return Failed(failure_);
    lsn = appended_ + 1;
  }
  uint32_t checksum = 0;
  const std::string frame = EncodeLogFrame(lsn, last_checksum_, kind, payload, &checksum);
  absl::Status put = CheckReserve(kind);
  const bool may_put = put.ok();
  if (may_put && disk_full_) put = ReopenAfterFullDisk();
  if (put.ok()) put = storage_->Put(lsn, frame, payload);
  if (absl::IsResourceExhausted(put)) {
    disk_full_ = disk_full_ || may_put;
    if (may_put && options_.reserve != nullptr) options_.reserve->Release();
    return OverloadStatus(
        reason::kDiskFull,
        absl::StrCat("the disk of the command log is full, nothing was applied: free space on it (",
                     put.message(), ")"),
        kDiskFullRetry);
  }
  if (!put.ok()) {
    Fail(put);
    return Failed(put);
  }
  DSLIDE_FAILPOINT("shard.log.appended");
  last_checksum_ = checksum;
  const absl::MutexLock lock(&mu_);
  appended_ = lsn;
  appended_bytes_ += bytes;
  return lsn;
}

absl::Status CommandLog::CheckReserve(uint8_t kind) const {
  if (options_.reserve == nullptr || options_.reserve->held() || IsOfTheShardItself(kind)) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError("what is left of it is for ending in good order");
}

// Opens the log again if there is space, and checks that it ends where it was confirmed to end.
absl::Status CommandLog::ReopenAfterFullDisk() {
  if (options_.clock->Now() - disk_tried_ < kDiskFullRetry) {
    return absl::ResourceExhaustedError("there was no space a moment ago");
  }
  const absl::Status reopened = storage_->Reopen();
  disk_tried_ = options_.clock->Now();
  RETURN_IF_ERROR(reopened);
  const uint64_t last = appended();
  ASSIGN_OR_RETURN(const LogExtent extent, WalkLog(*storage_, last, Ignore));
  if (extent.last != last || extent.last_checksum != last_checksum_) {
    return absl::DataLossError(absl::StrCat("after a full disk the log ends at record ",
                                            extent.last, ", it must end at ", last));
  }
  disk_full_ = false;
  LogInfo("there is space again: the command log goes on", {{"last", last}});
  return absl::OkStatus();
}

bool CommandLog::MustSync() const { return stopping_ || waiting_ > 0 || !failure_.ok(); }

void CommandLog::SyncLoop() {
  const auto has_work = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return stopping_ || !failure_.ok() || appended_ > durable_;
  };
  for (;;) {
    uint64_t target = 0;
    {
      const absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(&has_work));
      if (options_.sync_interval > absl::ZeroDuration()) {
        mu_.AwaitWithTimeout(absl::Condition(this, &CommandLog::MustSync), options_.sync_interval);
      }
      if (!failure_.ok() || appended_ == durable_) return;  // failed or stopping
      target = appended_;
    }
    const absl::Duration start = options_.clock->Now();
    if (const absl::Status synced = SyncUpTo(target); !synced.ok()) return Fail(synced);
    if (hooks_.on_sync) hooks_.on_sync(options_.clock->Now() - start);
    {
      const absl::MutexLock lock(&mu_);
      durable_ = target;
    }
    if (hooks_.on_durable) hooks_.on_durable(target);
  }
}

absl::Status CommandLog::SyncUpTo(uint64_t lsn) {
  DSLIDE_FAILPOINT("shard.log.syncing");
  RETURN_IF_ERROR(storage_->Sync());
  DSLIDE_FAILPOINT("shard.log.synced");
  const absl::MutexLock lock(&mark_mu_);
  RETURN_IF_ERROR(high_water_->SetDurable(lsn));
  DSLIDE_FAILPOINT("shard.log.marked");
  if (options_.clock->Now() - mark_synced_ < options_.mark_interval) return absl::OkStatus();
  RETURN_IF_ERROR(high_water_->Sync());
  DSLIDE_FAILPOINT("shard.log.mark_synced");
  mark_synced_ = options_.clock->Now();
  return absl::OkStatus();
}

void CommandLog::Fail(const absl::Status& status) {
  {
    const absl::MutexLock lock(&mu_);
    if (!failure_.ok()) return;
    failure_ = status;
  }
  LogError("the command log has failed", {{"error", status.message()}});
  if (hooks_.on_failed) hooks_.on_failed(Failed(status));
}

absl::Status CommandLog::Sync() {
  const absl::MutexLock lock(&mu_);
  const uint64_t target = appended_;
  const auto done = [this, target]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return !failure_.ok() || durable_ >= target;
  };
  ++waiting_;
  mu_.Await(absl::Condition(&done));
  --waiting_;
  return failure_.ok() ? absl::OkStatus() : Failed(failure_);
}

absl::Status CommandLog::Trim(uint64_t keep_from) {
  const uint64_t first = std::min(keep_from, durable());
  {
    const absl::MutexLock lock(&mark_mu_);
    RETURN_IF_ERROR(high_water_->SetFirst(first));
  }
  DSLIDE_FAILPOINT("shard.log.trim_marked");
  RETURN_IF_ERROR(storage_->DropBelow(first));
  DSLIDE_FAILPOINT("shard.log.trimmed");
  return absl::OkStatus();
}

uint64_t CommandLog::appended() const {
  const absl::MutexLock lock(&mu_);
  return appended_;
}

uint64_t CommandLog::durable() const {
  const absl::MutexLock lock(&mu_);
  return durable_;
}

int64_t CommandLog::appended_bytes() const {
  const absl::MutexLock lock(&mu_);
  return appended_bytes_;
}

}  // namespace dslide::shard
