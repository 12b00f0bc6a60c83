// Metrics of a shard's command log and images.

#pragma once

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/net/metrics/metrics.h"
#include "services/shard/durability/durable_state.h"

namespace dslide::shard {

// What lies on the disk now.
struct DurableFootprint {
  int64_t log_bytes = 0;    // the log's files, its high-water mark too
  int64_t image_bytes = 0;  // of the images that count
  int64_t images = 0;
  uint64_t image_lsn = 0;                        // of the newest image
  absl::Time image_time = absl::InfinitePast();  // when it was written
};

// Looks at the files under `data_dir`. Safe while they change: what has just gone counts nothing.
DurableFootprint MeasureFootprint(const std::string& data_dir);

// Shows a DurableState on a page. Thread safety: the callbacks run on any thread.
class DurableGauges {
 public:
  // All outlive it. `state` is read through its log, which is thread-safe, and its recovery, which
  // is constant.
  DurableGauges(Metrics& metrics, const DurableState& state, std::string data_dir,
                const Clock& clock);
  ~DurableGauges();
  DurableGauges(const DurableGauges&) = delete;
  DurableGauges& operator=(const DurableGauges&) = delete;

 private:
  // At most a second old: several gauges of one page look at the disk once.
  DurableFootprint Footprint();
  void AddLog();
  void AddImages();
  void AddRecovery();

  Metrics& metrics_;
  const DurableState& state_;
  const std::string data_dir_;
  const Clock& clock_;
  absl::Mutex mu_;
  DurableFootprint footprint_ ABSL_GUARDED_BY(mu_);
  absl::Duration measured_ ABSL_GUARDED_BY(mu_) = -absl::InfiniteDuration();
};

}  // namespace dslide::shard
