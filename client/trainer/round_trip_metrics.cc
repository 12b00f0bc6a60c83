#include "client/trainer/round_trip_metrics.h"

#include "absl/strings/str_cat.h"

namespace dslide {

void RoundTripMetrics::Observe(ShardId shard, absl::Duration round_trip) {
  Histogram histogram;
  {
    const absl::MutexLock lock(&mu_);
    const auto [found, is_new] = seconds_.try_emplace(shard);
    if (is_new) {
      found->second = metrics_.AddHistogram(
          "dslide_trainer_round_trip_seconds",
          "Time from sending a step operation to its answer, the shard's queue and work included.",
          {{"shard", absl::StrCat(shard.value())}});
    }
    histogram = found->second;
  }
  histogram.Observe(absl::ToDoubleSeconds(round_trip));
}

}  // namespace dslide
