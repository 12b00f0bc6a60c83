// What a trainer shows on its admin page: dslide_trainer_*.

#pragma once

#include <cstdint>

#include "client/cpp/wire_counters.h"
#include "client/trainer/step_pipeline.h"
#include "core/net/http/status_page.h"
#include "core/net/metrics/metrics.h"

namespace dslide {

// Thread safety: as Metrics.
class TrainerMetrics {
 public:
  // `metrics` and `counters` must outlive this object.
  TrainerMetrics(Metrics& metrics, const WireCounters& counters);
  ~TrainerMetrics();
  TrainerMetrics(const TrainerMetrics&) = delete;
  TrainerMetrics& operator=(const TrainerMetrics&) = delete;

  // `dense_bytes`: what dense data-parallel training would have moved for the step.
  void OnStep(const FinishedStep& step, int64_t dense_bytes);
  // `seconds` grows from step to step; what it grew by is observed. From one thread.
  void OnStages(const StageSeconds& seconds);
  void OnEvaluation(double p_at_1);

  // Bytes of steps, both ways, for each point trained; 0 before the first.
  double BytesPerSample() const;
  // Share of the dense training's bytes that were not moved; 0 before the first step.
  double SavedBytesRatio() const;
  // For the admin page.
  StatusPage Page() const;

 private:
  Metrics& metrics_;
  const WireCounters& counters_;
  Counter steps_;
  Counter samples_;
  Counter dense_bytes_;
  Counter active_rows_;
  Counter distinct_rows_;
  Counter recall_samples_;
  Counter recall_top_1_;
  Counter recall_top_10_;
  Counter recall_top_10_asked_;
  Gauge loss_;
  Gauge epoch_;
  Gauge p_at_1_;
  Histogram stage_seconds_[5];
  StageSeconds observed_;  // of OnStages()
};

}  // namespace dslide
