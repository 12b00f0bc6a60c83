#include "services/shard/log_record.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/crc32c.h"

namespace dslide::shard {
namespace {

constexpr char kMagic[] = "DSLR";
constexpr size_t kMagicBytes = 4;
constexpr uint8_t kFrameFormat = 1;
constexpr size_t kChecksumAt = 24;

template <typename T>
void Put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
T Get(absl::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("a log record ", what));
}

}  // namespace

std::string EncodeLogFrame(uint64_t lsn, uint32_t previous, uint8_t kind,
                           absl::Span<const absl::string_view> payload, uint32_t* checksum) {
  size_t bytes = 0;
  for (const absl::string_view piece : payload) bytes += piece.size();
  std::string frame(kMagic, kMagicBytes);
  frame.reserve(kLogFrameBytes);
  Put(frame, static_cast<uint32_t>(bytes));
  Put(frame, lsn);
  Put(frame, previous);
  Put(frame, kind);
  Put(frame, kFrameFormat);
  Put(frame, uint16_t{0});
  uint32_t crc = ExtendCrc32c(0, frame);
  for (const absl::string_view piece : payload) crc = ExtendCrc32c(crc, piece);
  Put(frame, crc);
  *checksum = crc;
  return frame;
}

absl::StatusOr<LogRecord> DecodeLogRecord(absl::string_view bytes) {
  if (bytes.size() < kLogFrameBytes) {
    return Damaged(
        absl::StrCat("has ", bytes.size(), " bytes, its frame alone has ", kLogFrameBytes));
  }
  if (bytes.substr(0, kMagicBytes) != absl::string_view(kMagic, kMagicBytes)) {
    return Damaged("does not begin with its magic bytes");
  }
  const auto size = Get<uint32_t>(bytes, 4);
  if (size > kMaxLogPayload || size > bytes.size() - kLogFrameBytes) {
    return Damaged(absl::StrCat("should have ", size, " bytes of payload, ",
                                bytes.size() - kLogFrameBytes, " are there"));
  }
  LogRecord record;
  record.lsn = Get<uint64_t>(bytes, 8);
  record.previous = Get<uint32_t>(bytes, 16);
  record.kind = Get<uint8_t>(bytes, 20);
  record.checksum = Get<uint32_t>(bytes, kChecksumAt);
  record.payload = bytes.substr(kLogFrameBytes, size);
  const uint32_t crc = ExtendCrc32c(ExtendCrc32c(0, bytes.substr(0, kChecksumAt)), record.payload);
  if (crc != record.checksum) return Damaged("does not have its checksum");
  // Below, because only now the byte is known to be what was written.
  if (const auto format = Get<uint8_t>(bytes, 21); format != kFrameFormat) {
    return Damaged(absl::StrCat("has format ", format, ", this version reads ", kFrameFormat,
                                ": use the version that wrote it"));
  }
  return record;
}

size_t FindLogFrame(absl::string_view bytes, size_t from) {
  return bytes.find(absl::string_view(kMagic, kMagicBytes), from);
}

}  // namespace dslide::shard
