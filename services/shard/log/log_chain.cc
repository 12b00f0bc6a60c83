#include "services/shard/log/log_chain.h"

#include <algorithm>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace dslide::shard {
namespace {

std::string Range(uint64_t first, uint64_t last) {
  return first == last ? absl::StrCat("record ", first)
                       : absl::StrCat("records ", first, " to ", last);
}

}  // namespace

absl::Status LogChain::Add(uint64_t lsn, absl::string_view bytes,
                           absl::FunctionRef<absl::Status(const LogRecord&)> visit) {
  const absl::StatusOr<LogRecord> record = DecodeLogRecord(bytes);
  if (!record.ok()) {
    return absl::Status(record.status().code(),
                        absl::StrCat(Range(lsn, lsn), ": ", record.status().message()));
  }
  const bool whole = bytes.size() == kLogFrameBytes + record->payload.size();
  if (record->lsn != lsn || !whole) {
    return absl::DataLossError(
        absl::StrCat("in the place of ", Range(lsn, lsn), " lies record ", record->lsn));
  }
  if (extent_.records > 0 && lsn != extent_.last + 1) {
    return absl::DataLossError(absl::StrCat(Range(extent_.last + 1, lsn - 1), " are missing"));
  }
  if (extent_.records > 0 ? record->previous != extent_.last_checksum
                          : lsn == 1 && record->previous != 0) {
    return absl::DataLossError(absl::StrCat(
        Range(lsn, lsn), " does not follow the one before it: it belongs to another log"));
  }
  if (extent_.records++ == 0) extent_.first = lsn;
  extent_.last = lsn;
  extent_.last_checksum = record->checksum;
  extent_.bytes += static_cast<int64_t>(bytes.size());
  return visit(*record);
}

absl::Status CheckLogBounds(const LogExtent& extent, const HighWater& mark) {
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

uint64_t HighestRecordAbove(uint64_t lsn, absl::string_view bytes) {
  uint64_t highest = 0;
  for (size_t at = FindLogFrame(bytes, 0); at != absl::string_view::npos;) {
    const absl::StatusOr<LogRecord> record = DecodeLogRecord(bytes.substr(at));
    size_t next = at + 1;
    if (record.ok()) {
      if (record->lsn > lsn) highest = std::max(highest, record->lsn);
      next = at + kLogFrameBytes + record->payload.size();
    }
    at = FindLogFrame(bytes, next);
  }
  return highest;
}

absl::Status CheckNothingBeyond(const LogExtent& extent, uint64_t beyond) {
  if (beyond == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "the log is damaged behind record ", extent.last, ", and record ", beyond,
      " is whole behind the damage: ", Range(extent.last + 1, beyond), " would be lost"));
}

}  // namespace dslide::shard
