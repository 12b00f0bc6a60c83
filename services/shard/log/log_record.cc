#include "services/shard/log/log_record.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/byte_fields.h"
#include "core/base/crc32c.h"
#include "core/base/status_macros.h"
#include "core/system/format_version.h"

namespace dslide::shard {
namespace {

constexpr char kLogRecordMagic[] = "DSLR";
constexpr size_t kLogRecordMagicBytes = 4;
constexpr uint8_t kRecordFormat = 1;
constexpr size_t kChecksumAt = 24;

absl::Status DamagedRecord(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("a log record ", what));
}

}  // namespace

std::string EncodeLogFrame(uint64_t lsn, uint32_t previous, uint8_t kind,
                           absl::Span<const absl::string_view> payload, uint32_t* checksum) {
  size_t bytes = 0;
  for (const absl::string_view piece : payload) bytes += piece.size();
  ByteWriter frame;
  frame.Raw({kLogRecordMagic, kLogRecordMagicBytes});
  frame.Number(static_cast<uint32_t>(bytes));
  frame.Number(lsn);
  frame.Number(previous);
  frame.Number(kind);
  frame.Number(kRecordFormat);
  frame.Number(uint16_t{0});
  uint32_t crc = ExtendCrc32c(0, frame.bytes());
  for (const absl::string_view piece : payload) crc = ExtendCrc32c(crc, piece);
  frame.Number(crc);
  *checksum = crc;
  return std::move(frame).Take();
}

absl::StatusOr<LogRecord> DecodeLogRecord(absl::string_view bytes) {
  if (bytes.size() < kLogFrameBytes) {
    return DamagedRecord(
        absl::StrCat("has ", bytes.size(), " bytes, its frame alone has ", kLogFrameBytes));
  }
  ByteReader frame(bytes);
  if (frame.Raw(kLogRecordMagicBytes) != absl::string_view(kLogRecordMagic, kLogRecordMagicBytes)) {
    return DamagedRecord("does not begin with its magic bytes");
  }
  const auto size = frame.Number<uint32_t>();
  if (size > kMaxLogPayload || size > bytes.size() - kLogFrameBytes) {
    return DamagedRecord(absl::StrCat("should have ", size, " bytes of payload, ",
                                      bytes.size() - kLogFrameBytes, " are there"));
  }
  LogRecord record;
  record.lsn = frame.Number<uint64_t>();
  record.previous = frame.Number<uint32_t>();
  record.kind = frame.Number<uint8_t>();
  const auto format = frame.Number<uint8_t>();
  frame.Raw(sizeof(uint16_t));  // room
  record.checksum = frame.Number<uint32_t>();
  record.payload = bytes.substr(kLogFrameBytes, size);
  const uint32_t crc = ExtendCrc32c(ExtendCrc32c(0, bytes.substr(0, kChecksumAt)), record.payload);
  if (crc != record.checksum) return DamagedRecord("does not have its checksum");
  // Below, because only now the byte is known to be what was written.
  RETURN_IF_ERROR(
      CheckFormat("a log record", format, {.oldest = kRecordFormat, .newest = kRecordFormat}));
  return record;
}

size_t FindLogFrame(absl::string_view bytes, size_t from) {
  return bytes.find(absl::string_view(kLogRecordMagic, kLogRecordMagicBytes), from);
}

}  // namespace dslide::shard
