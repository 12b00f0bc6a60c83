#include "services/inspect/disk_room.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_format.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

// Below it nothing that is written is sure to succeed.
constexpr int64_t kLeastRoom = int64_t{64} << 20;

double Megabytes(int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

}  // namespace

int64_t TreeBytes(const std::string& path) {
  int64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(path, error)) {
    if (entry.is_regular_file(error)) bytes += static_cast<int64_t>(entry.file_size(error));
  }
  return bytes;
}

void ExamineRoom(const std::string& path, int64_t needed, Findings& findings) {
  struct statvfs disk = {};
  if (statvfs(path.c_str(), &disk) != 0) return;
  const auto room = static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
  const std::string what = absl::StrFormat("%.0f MB of the disk are free", Megabytes(room));
  if (room < kLeastRoom) {
    findings.Error(path, absl::ResourceExhaustedError(what), "free space, or grow the volume");
  } else if (room < needed) {
    findings.Warn(
        path,
        absl::StrFormat("%s, the next image or checkpoint takes %.0f MB", what, Megabytes(needed)),
        "free space, grow the volume, or keep fewer checkpoints (--checkpoint-keep)");
  } else {
    findings.Ok(path, what);
  }
}

}  // namespace dslide
