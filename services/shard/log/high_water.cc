#include "services/shard/log/high_water.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/byte_fields.h"
#include "core/base/crc32c.h"
#include "core/base/status_macros.h"
#include "core/system/failpoint.h"
#include "core/system/files/system_error.h"
#include "core/system/format_version.h"
#include "core/system/log.h"
#include "services/common/files/durable_files.h"

namespace dslide::shard {
namespace {

// The version is behind it.
constexpr char kHighWaterMagicWord[] = "DSLHIGH";
constexpr char kMagic[] = "DSLHIGH1";
constexpr size_t kMagicBytes = 8;
constexpr FormatRange kHighWaterFormats = {.oldest = 1, .newest = 1};
constexpr size_t kSlotBytes = 36;
constexpr int64_t kSlotSpacing = 4096;
constexpr int64_t kSlots = 2;

struct Slot {
  bool good = false;
  uint64_t number = 0;
  HighWater mark;
};

std::string EncodeSlot(uint64_t number, const HighWater& mark) {
  ByteWriter out;
  out.Raw({kMagic, kMagicBytes});
  out.Number(number);
  out.Number(mark.first);
  out.Number(mark.durable);
  out.Number(ExtendCrc32c(0, out.bytes()));
  return std::move(out).Take();
}

Slot DecodeSlot(absl::string_view content, int64_t slot) {
  const auto at = static_cast<size_t>(slot * kSlotSpacing);
  if (content.size() < at + kSlotBytes) return {};
  const absl::string_view bytes = content.substr(at, kSlotBytes);
  ByteReader in(bytes);
  const absl::string_view magic = in.Raw(kMagicBytes);
  Slot read;
  read.number = in.Number<uint64_t>();
  read.mark.first = in.Number<uint64_t>();
  read.mark.durable = in.Number<uint64_t>();
  const auto crc = in.Number<uint32_t>();
  read.good = magic == absl::string_view(kMagic, kMagicBytes) &&
              crc == ExtendCrc32c(0, bytes.substr(0, kSlotBytes - sizeof(crc)));
  return read.good ? read : Slot();
}

// The version of the format that a slot says it has; what of it is in its place depends on that.
std::optional<int64_t> VersionOf(absl::string_view content, int64_t slot) {
  const auto at = static_cast<size_t>(slot * kSlotSpacing);
  if (content.size() < at + kMagicBytes) return std::nullopt;
  return VersionBehind(kHighWaterMagicWord, content.substr(at, kMagicBytes));
}

// The slot that counts.
absl::StatusOr<Slot> ReadNewest(const std::string& path) {
  const absl::StatusOr<std::string> content = ReadFile(path);
  if (absl::IsNotFound(content.status())) {
    return absl::DataLossError(absl::StrCat("the high-water mark ", path, " is missing"));
  }
  RETURN_IF_ERROR(content.status());
  const Slot a = DecodeSlot(*content, 0);
  const Slot b = DecodeSlot(*content, 1);
  if (!a.good && !b.good) {
    // In one slot alone another number is a flipped bit.
    const std::optional<int64_t> version = VersionOf(*content, 0);
    if (version.has_value() && version == VersionOf(*content, 1)) {
      RETURN_IF_ERROR(
          CheckFormat(absl::StrCat("the high-water mark ", path), *version, kHighWaterFormats));
    }
    return absl::DataLossError(
        absl::StrCat("the high-water mark ", path, " is damaged: neither slot has its checksum"));
  }
  Slot newest = !b.good || (a.good && a.number > b.number) ? a : b;
  newest.mark.half_damaged = !a.good || !b.good;
  return newest;
}

}  // namespace

absl::Status HighWaterFile::Create(const std::string& path, const HighWater& mark) {
  std::string content(kSlots * kSlotSpacing, '\0');
  for (int64_t slot = 0; slot < kSlots; ++slot) {
    content.replace(static_cast<size_t>(slot * kSlotSpacing), kSlotBytes,
                    EncodeSlot(static_cast<uint64_t>(slot + 1), mark));
  }
  return ReplaceFile(path, content);
}

absl::StatusOr<HighWater> HighWaterFile::Read(const std::string& path) {
  ASSIGN_OR_RETURN(const Slot newest, ReadNewest(path));
  return newest.mark;
}

absl::StatusOr<std::unique_ptr<HighWaterFile>> HighWaterFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(const Slot newest, ReadNewest(path));
  if (newest.mark.half_damaged) {
    LogWarning("one slot of the high-water mark is damaged; the other one counts",
               {{"path", path}, {"durable", newest.mark.durable}});
  }
  // Both slots anew: from here on each write leaves a good one behind.
  RETURN_IF_ERROR(Create(path, {.first = newest.mark.first, .durable = newest.mark.durable}));
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return SystemError("open", path, errno);
  return std::unique_ptr<HighWaterFile>(
      new HighWaterFile(path, fd, newest.mark, static_cast<uint64_t>(kSlots)));
}

HighWaterFile::HighWaterFile(std::string path, int fd, HighWater mark, uint64_t number)
    : path_(std::move(path)), fd_(fd), mark_(mark), number_(number) {
  mark_.half_damaged = false;
}

HighWaterFile::~HighWaterFile() { close(fd_); }

absl::Status HighWaterFile::WriteSlot() {
  const std::string bytes = EncodeSlot(++number_, mark_);
  const ssize_t written = pwrite(fd_, bytes.data(), bytes.size(), slot_ * kSlotSpacing);
  if (written == static_cast<ssize_t>(bytes.size())) return absl::OkStatus();
  return SystemError("write", path_, written < 0 ? errno : EIO);
}

absl::Status HighWaterFile::SetDurable(uint64_t durable) {
  if (durable <= mark_.durable) return absl::OkStatus();
  mark_.durable = durable;
  return WriteSlot();
}

absl::Status HighWaterFile::SetFirst(uint64_t first) {
  if (first <= mark_.first) return absl::OkStatus();
  mark_.first = first;
  for (int64_t slot = 0; slot < kSlots; ++slot) {
    RETURN_IF_ERROR(WriteSlot());
    RETURN_IF_ERROR(Sync());
    DSLIDE_FAILPOINT("shard.log.first_marked");
  }
  return absl::OkStatus();
}

absl::Status HighWaterFile::Sync() {
  if (fdatasync(fd_) != 0) return SystemError("sync", path_, errno);
  slot_ = (slot_ + 1) % kSlots;
  return absl::OkStatus();
}

}  // namespace dslide::shard
