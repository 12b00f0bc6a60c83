#include "tests/simulation/nodes/log_device.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/reason.h"
#include "core/base/retry_after.h"
#include "core/base/status_macros.h"
#include "core/protocol/reason_words.h"

namespace dslide::simulation {
namespace {

using shard::DecodeLogRecord;
using shard::kLogFrameBytes;
using shard::LogRecord;

// The whole records that `bytes` begin with: their bytes.
size_t WholeBytes(absl::string_view bytes, int64_t* records) {
  size_t at = 0;
  for (*records = 0;; ++*records) {
    const absl::StatusOr<LogRecord> record = DecodeLogRecord(bytes.substr(at));
    if (!record.ok()) return at;
    at += kLogFrameBytes + record->payload.size();
  }
}

// With the bug: takes what a crash has left of a record for one, with zeros for what is missing.
std::string CompletedTorn(absl::string_view tail, const shard::LogExtent& extent) {
  constexpr size_t kSizeAt = 4, kKindAt = 20;
  if (tail.size() < kLogFrameBytes) return "";
  uint32_t size = 0;
  std::copy(tail.begin() + kSizeAt, tail.begin() + kSizeAt + sizeof(size),
            reinterpret_cast<char*>(&size));
  std::string payload(tail.substr(kLogFrameBytes));
  payload.resize(size);
  const absl::string_view piece = payload;
  uint32_t checksum = 0;
  return shard::EncodeLogFrame(extent.last + 1, extent.last_checksum,
                               static_cast<uint8_t>(tail[kKindAt]), {piece}, &checksum) +
         payload;
}

absl::Status Failed(absl::string_view why) {
  return StatusWithReason(absl::StatusCode::kUnavailable, reason::kLogFailed, why);
}

}  // namespace

void CrashLog(Place place, bool power, CounterRng& rng, Trace& trace, LogDisk& disk) {
  if (power) {
    const size_t loose = disk.bytes.size() - std::min(disk.synced, disk.bytes.size());
    // Half of the time nothing of it has reached the disk.
    const size_t kept = rng.NextBelow(2) == 0 ? 0 : rng.NextBelow(loose + 1);
    int64_t lost = 0;
    WholeBytes(absl::string_view(disk.bytes).substr(disk.synced), &lost);
    if (lost > 0) trace.Note(Fault::kLostUnsynced, {place, lost});
    disk.bytes.resize(disk.bytes.size() - loose + kept);
    if (rng.NextBelow(2) == 0) disk.mark = disk.mark_synced;
  } else if (rng.NextBelow(4) == 0) {
    // It dies while it hands a record to the system.
    uint32_t checksum = 0;
    const std::string payload(8, 'x');
    const std::string frame =
        shard::EncodeLogFrame(disk.mark.durable + 1, 0, 1, {payload}, &checksum);
    disk.bytes += frame.substr(0, 1 + rng.NextBelow(frame.size() - 1));
  }
  int64_t records = 0;
  const size_t whole = WholeBytes(disk.bytes, &records);
  if (whole < disk.bytes.size()) {
    trace.Note(Fault::kTornRecord, {place, static_cast<int64_t>(disk.bytes.size() - whole)});
  }
  // What a start finds it makes durable.
  disk.synced = std::min(disk.synced, disk.bytes.size());
  disk.full = disk.sync_fails = false;
  disk.hole = std::string::npos;
}

absl::StatusOr<LogRead> ReadLog(Bug bug, LogDisk& disk,
                                absl::FunctionRef<absl::Status(const LogRecord&)> visit) {
  shard::LogChain chain;
  size_t at = 0;
  uint64_t lsn = disk.mark.first;
  const absl::string_view bytes = disk.bytes;
  while (at < bytes.size()) {
    const absl::StatusOr<LogRecord> record = DecodeLogRecord(bytes.substr(at));
    if (!record.ok()) break;
    const size_t size = kLogFrameBytes + record->payload.size();
    RETURN_IF_ERROR(chain.Add(lsn++, bytes.substr(at, size), visit));
    at += size;
  }
  LogRead read;
  read.torn = at < bytes.size();
  RETURN_IF_ERROR(shard::CheckLogBounds(chain.extent(), disk.mark));
  RETURN_IF_ERROR(shard::CheckNothingBeyond(
      chain.extent(), shard::HighestRecordAbove(chain.extent().last, bytes.substr(at))));
  std::string completed;
  if (read.torn && bug == Bug::kTornRecordAccepted) {
    completed = CompletedTorn(bytes.substr(at), chain.extent());
    // What cannot even be read is passed over.
    if (!completed.empty()) chain.Add(lsn, completed, visit).IgnoreError();
  }
  disk.bytes.resize(at);
  disk.bytes += completed;
  disk.synced = disk.bytes.size();
  read.last = std::max(chain.extent().last, disk.mark.first - 1);
  read.last_checksum = chain.extent().last_checksum;
  disk.mark.durable = std::max(disk.mark.durable, read.last);
  disk.mark_synced = disk.mark;
  return read;
}

LogDevice::LogDevice(NodePtr node, Options options, const LogRead& found, Trace& trace,
                     LogDisk& disk)
    : node_(std::move(node)),
      options_(std::move(options)),
      trace_(trace),
      disk_(disk),
      appended_(found.last),
      durable_(found.last),
      last_checksum_(found.last_checksum),
      good_bytes_(disk.bytes.size()) {}

absl::StatusOr<uint64_t> LogDevice::Append(uint8_t kind,
                                           absl::Span<const absl::string_view> payload) {
  if (!failure_.ok()) return failure_;
  const uint64_t lsn = appended_ + 1;
  uint32_t checksum = 0;
  std::string record = shard::EncodeLogFrame(lsn, last_checksum_, kind, payload, &checksum);
  for (const absl::string_view piece : payload) record.append(piece.data(), piece.size());
  // What an earlier refusal has left goes first.
  disk_.bytes.resize(good_bytes_);
  if (disk_.full) {
    trace_.Note(Fault::kDiskFull, {node_->place()});
    disk_.bytes += record.substr(0, record.size() / 2);
    return OverloadStatus(reason::kDiskFull, "the simulated disk is full", absl::Milliseconds(20));
  }
  disk_.bytes += record;
  good_bytes_ = disk_.bytes.size();
  last_checksum_ = checksum;
  appended_ = lsn;
  appended_bytes_ += static_cast<int64_t>(record.size());
  if (options_.on_append) options_.on_append(*DecodeLogRecord(record));
  if (options_.bug == Bug::kAckBeforeSync) {
    durable_ = lsn;
    if (hooks_.on_durable) hooks_.on_durable(lsn);
  }
  ScheduleSync();
  return lsn;
}

void LogDevice::ScheduleSync() {
  if (sync_running_ || !failure_.ok()) return;
  sync_running_ = true;
  Node::After(node_, options_.sync_interval, [this] {
    // All that is there now goes together.
    const uint64_t target = appended_;
    const size_t bytes = good_bytes_ + trimmed_;
    Node::After(node_, options_.sync_time, [this, target, bytes] {
      sync_running_ = false;
      const size_t now = bytes - std::min(bytes, trimmed_);
      if (!SyncUpTo(target, now).ok()) return;
      if (appended_ > durable_) ScheduleSync();
    });
  });
}

absl::Status LogDevice::SyncUpTo(uint64_t lsn, size_t bytes) {
  if (!failure_.ok()) return failure_;
  if (disk_.sync_fails) {
    trace_.Note(Fault::kSyncFailed, {node_->place()});
    disk_.sync_fails = false;
    // The system has dropped what it could not write, and will not say so again.
    if (options_.bug != Bug::kSyncRetried) {
      failure_ = Failed("a simulated sync has failed");
      if (hooks_.on_failed) hooks_.on_failed(failure_);
      return failure_;
    }
    disk_.hole = std::min(disk_.hole, disk_.synced);
  }
  disk_.synced = std::min(disk_.hole, std::max(disk_.synced, bytes));
  if (lsn <= durable_ && options_.bug != Bug::kAckBeforeSync) return absl::OkStatus();
  durable_ = std::max(durable_, lsn);
  disk_.mark.durable = std::max(disk_.mark.durable, lsn);
  // Now and then the mark itself is synced.
  if (lsn % 16 == 0) disk_.mark_synced = disk_.mark;
  if (hooks_.on_durable) hooks_.on_durable(durable_);
  return absl::OkStatus();
}

absl::Status LogDevice::Sync() {
  if (!failure_.ok()) return failure_;
  return SyncUpTo(appended_, good_bytes_);
}

absl::Status LogDevice::Trim(uint64_t keep_from) {
  const uint64_t first = std::min(keep_from, durable_);
  size_t at = 0;
  for (uint64_t lsn = disk_.mark.first; lsn < first; ++lsn) {
    const absl::StatusOr<LogRecord> record =
        DecodeLogRecord(absl::string_view(disk_.bytes).substr(at));
    if (!record.ok()) break;
    at += kLogFrameBytes + record->payload.size();
  }
  disk_.bytes.erase(0, at);
  disk_.synced -= std::min(disk_.synced, at);
  if (disk_.hole != std::string::npos) disk_.hole -= std::min(disk_.hole, at);
  good_bytes_ -= at;
  trimmed_ += at;
  disk_.mark.first = std::max(disk_.mark.first, first);
  disk_.mark_synced = disk_.mark;
  return absl::OkStatus();
}

}  // namespace dslide::simulation
