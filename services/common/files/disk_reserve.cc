#include "services/common/files/disk_reserve.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/system/files/system_error.h"
#include "core/system/log.h"
#include "services/common/files/durable_files.h"

namespace dslide {
namespace {

namespace fs = std::filesystem;

constexpr char kName[] = "/RESERVE";
// Of what is free at the start, at most one part in so many.
constexpr int64_t kShareOfFree = 10;
// With less than this the volume counts as full.
constexpr int64_t kNearlyNothing = int64_t{1} << 20;
// Room that must be left beside a reserve that is made again.
constexpr int64_t kRoomBeside = int64_t{4} << 20;

int64_t SystemsAvailable(const std::string& directory) {
  std::error_code error;
  const fs::space_info space = fs::space(directory, error);
  return error ? INT64_MAX : static_cast<int64_t>(std::min<uintmax_t>(space.available, INT64_MAX));
}

}  // namespace

DiskReserve::DiskReserve(const std::string& directory, DiskReserveOptions options)
    : directory_(directory), path_(directory + kName), options_(std::move(options)) {}

std::unique_ptr<DiskReserve> DiskReserve::Open(const std::string& directory,
                                               DiskReserveOptions options) {
  std::unique_ptr<DiskReserve> reserve(new DiskReserve(directory, std::move(options)));
  reserve->Take();
  {
    const absl::MutexLock lock(&reserve->mu_);
    if (!reserve->wanted_) return reserve;
  }
  // A start on a full disk needs it at once.
  reserve->Look();
  reserve->watcher_ = std::thread([raw = reserve.get()] { raw->Watch(); });
  return reserve;
}

DiskReserve::~DiskReserve() {
  {
    const absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  if (watcher_.joinable()) watcher_.join();
  if (metrics_ != nullptr) metrics_->RemoveCallbacks(this);
}

int64_t DiskReserve::Available() const {
  return options_.available ? options_.available(directory_) : SystemsAvailable(directory_);
}

void DiskReserve::Take() {
  const absl::MutexLock lock(&mu_);
  std::error_code error;
  const uintmax_t present = fs::file_size(path_, error);
  if (!error && options_.bytes > 0 && present == static_cast<uintmax_t>(options_.bytes)) {
    wanted_ = there_ = true;
    return;
  }
  RemoveAll(path_).IgnoreError();
  if (options_.bytes <= 0) return;
  const int64_t available = Available();
  if (options_.bytes > available / kShareOfFree) {
    LogWarning("no reserve for a full disk: it would take more than a tenth of what is free",
               {{"path", path_}, {"bytes", options_.bytes}, {"free", available}});
    return;
  }
  wanted_ = true;
  const absl::Status made = Make();
  there_ = made.ok();
  if (!made.ok())
    LogWarning("cannot make the reserve for a full disk", {{"error", made.message()}});
}

absl::Status DiskReserve::Make() const {
  const std::string fresh = path_ + ".new";
  const int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return SystemError("make", fresh, errno);
  // Blocks, not a hole: a hole would be of no use.
  int error = posix_fallocate(fd, 0, options_.bytes);
  if (error == 0 && fsync(fd) != 0) error = errno;
  close(fd);
  absl::Status made = error == 0 ? Rename(fresh, path_) : SystemError("fill", fresh, error);
  if (made.ok()) made = SyncDirectory(directory_);
  if (!made.ok()) RemoveAll(fresh).IgnoreError();
  return made;
}

bool DiskReserve::held() const {
  const absl::MutexLock lock(&mu_);
  return there_ || !wanted_;
}

int64_t DiskReserve::bytes() const {
  const absl::MutexLock lock(&mu_);
  return there_ ? options_.bytes : 0;
}

void DiskReserve::Release() {
  const absl::MutexLock lock(&mu_);
  ReleaseLocked();
}

void DiskReserve::ReleaseLocked() {
  if (!there_) return;
  if (const absl::Status removed = RemoveAll(path_); !removed.ok()) {
    return LogError("cannot release the reserve of a full disk", {{"error", removed.message()}});
  }
  there_ = false;
  LogWarning("the disk is full: its reserve was released, free space on it",
             {{"path", path_}, {"bytes", options_.bytes}});
}

void DiskReserve::Look() {
  const absl::MutexLock lock(&mu_);
  const int64_t available = Available();
  if (there_) {
    if (available < kNearlyNothing) ReleaseLocked();
    return;
  }
  if (available < options_.bytes + kRoomBeside) return;
  if (const absl::Status made = Make(); !made.ok()) return;  // somebody was faster
  there_ = true;
  LogInfo("there is space again: the reserve for a full disk is back",
          {{"path", path_}, {"bytes", options_.bytes}});
}

void DiskReserve::Watch() {
  for (;;) {
    {
      const absl::MutexLock lock(&mu_);
      if (mu_.AwaitWithTimeout(absl::Condition(&stopping_), options_.interval)) return;
    }
    Look();
  }
}

void DiskReserve::AddMetrics(Metrics& metrics) {
  metrics_ = &metrics;
  metrics.AddGaugeCallback(this, "dslide_server_disk_reserve_bytes",
                           "Space kept for a full disk; 0 while it is released, or without one.",
                           {}, [this] { return static_cast<double>(bytes()); });
}

}  // namespace dslide
