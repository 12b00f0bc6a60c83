// How long the shards take to answer a trainer, shard by shard.

#pragma once

#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/ids.h"
#include "core/net/metrics/metrics.h"

namespace dslide {

// dslide_trainer_round_trip_seconds{shard}. As many series as the cluster has shards.
// Thread safety: safe from any thread.
class RoundTripMetrics {
 public:
  // `metrics` outlives it.
  explicit RoundTripMetrics(Metrics& metrics) : metrics_(metrics) {}

  void Observe(ShardId shard, absl::Duration round_trip);

 private:
  Metrics& metrics_;
  absl::Mutex mu_;
  std::map<ShardId, Histogram> seconds_ ABSL_GUARDED_BY(mu_);
};

}  // namespace dslide
