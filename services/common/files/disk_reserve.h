// Space on a data directory's volume that is kept for the case that there is no other: a file that
// is really there, and goes when the disk is full. What it leaves behind is for closing files, for
// clean-up, and for the small files without which nobody knows where things stand. Never for what
// somebody is told to be safe.
//
//   <data dir>/RESERVE

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/net/metrics/metrics.h"

namespace dslide {

// What the servers keep unless they are told otherwise.
inline constexpr int64_t kDefaultDiskReserveBytes = int64_t{64} << 20;

struct DiskReserveOptions {
  int64_t bytes = 0;  // 0: none
  // Bytes that a user may still take on the volume of a directory. Null: those of the system.
  std::function<int64_t(const std::string& directory)> available = nullptr;
  // How often that is looked at.
  absl::Duration interval = absl::Milliseconds(100);
};

// Thread safety: safe from any thread.
class DiskReserve {
 public:
  // Takes over what an earlier process has left there, or makes it, unless it would take more than
  // a tenth of what is free: then there is none, and the log says so. `directory` exists.
  static std::unique_ptr<DiskReserve> Open(const std::string& directory,
                                           DiskReserveOptions options);
  // The file stays.
  ~DiskReserve();

  // False from when the disk was full until there is enough space to make it again. Who promises
  // that something is kept refuses meanwhile. True when there is none to be had.
  bool held() const;
  // A write has found no space. Also happens by itself when the volume is nearly full.
  void Release();

  // On the disk now.
  int64_t bytes() const;
  // Shows that on the page, which outlives this object.
  void AddMetrics(Metrics& metrics);

 private:
  DiskReserve(const std::string& directory, DiskReserveOptions options);

  void Take();
  absl::Status Make() const;
  int64_t Available() const;
  void Watch();
  void Look() ABSL_LOCKS_EXCLUDED(mu_);
  void ReleaseLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::string directory_;
  const std::string path_;
  const DiskReserveOptions options_;
  Metrics* metrics_ = nullptr;  // constant once serving
  mutable absl::Mutex mu_;
  bool wanted_ ABSL_GUARDED_BY(mu_) = false;  // false: there is none, and will not be
  bool there_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread watcher_;
};

}  // namespace dslide
