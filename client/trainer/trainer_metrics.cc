#include "client/trainer/trainer_metrics.h"

namespace dslide {

TrainerMetrics::TrainerMetrics(Metrics& metrics, const WireCounters& counters)
    : metrics_(metrics), counters_(counters) {
  steps_ = metrics.AddCounter("dslide_trainer_steps_total", "Steps finished.");
  samples_ = metrics.AddCounter("dslide_trainer_samples_total", "Points trained.");
  dense_bytes_ = metrics.AddCounter(
      "dslide_trainer_dense_equivalent_bytes_total",
      "Bytes that dense data-parallel training would have moved for the same steps.");
  active_rows_ = metrics.AddCounter("dslide_trainer_active_rows_total",
                                    "Active rows, summed over the points trained.");
  distinct_rows_ = metrics.AddCounter("dslide_trainer_distinct_rows_total",
                                      "Distinct rows of the head, summed over the steps.");
  recall_samples_ =
      metrics.AddCounter("dslide_trainer_recall_samples_total",
                         "Points whose active set was compared with the exact top 10.");
  recall_top_1_ = metrics.AddCounter("dslide_trainer_recall_top1_found_total",
                                     "Of them, those whose best row the hash tables had found.");
  recall_top_10_ = metrics.AddCounter("dslide_trainer_recall_top10_found_total",
                                      "Rows of their exact top 10 that the tables had found.");
  recall_top_10_asked_ =
      metrics.AddCounter("dslide_trainer_recall_top10_rows_total", "Rows of their exact top 10.");
  loss_ = metrics.AddGauge("dslide_trainer_loss", "Mean loss of the last step.");
  epoch_ = metrics.AddGauge("dslide_trainer_epoch", "Epoch of the last step, from 0.");
  p_at_1_ = metrics.AddGauge("dslide_trainer_validation_precision_at_1_ratio",
                             "Precision at 1 on the held-out points, at the last evaluation.");
  const char* stages[] = {"wait-embed-forward", "wait-head-forward", "wait-head-backward", "hash",
                          "compute"};
  for (size_t i = 0; i < 5; ++i) {
    stage_seconds_[i] = metrics.AddGauge("dslide_trainer_stage_seconds",
                                         "Time the pipeline has spent in each of its stages.",
                                         {{"stage", stages[i]}});
  }
  counters.Export(metrics, "trainer");
}

TrainerMetrics::~TrainerMetrics() { metrics_.RemoveCallbacks(&counters_); }

void TrainerMetrics::OnStep(const FinishedStep& step, int64_t dense_bytes) {
  const auto samples = static_cast<double>(step.samples);
  steps_.Increment();
  samples_.Increment(samples);
  dense_bytes_.Increment(static_cast<double>(dense_bytes));
  active_rows_.Increment(static_cast<double>(step.active_pairs));
  distinct_rows_.Increment(static_cast<double>(step.distinct_rows));
  recall_samples_.Increment(static_cast<double>(step.recall.samples));
  recall_top_1_.Increment(static_cast<double>(step.recall.top_1_found));
  recall_top_10_.Increment(static_cast<double>(step.recall.top_10_found));
  recall_top_10_asked_.Increment(static_cast<double>(step.recall.top_10));
  if (step.samples > 0) loss_.Set(step.loss_sum / samples);
  epoch_.Set(static_cast<double>(step.epoch));
}

void TrainerMetrics::OnStages(const StageSeconds& seconds) {
  stage_seconds_[0].Set(seconds.wait_embed_forward);
  stage_seconds_[1].Set(seconds.wait_head_forward);
  stage_seconds_[2].Set(seconds.wait_head_backward);
  stage_seconds_[3].Set(seconds.hash);
  stage_seconds_[4].Set(seconds.compute);
}

void TrainerMetrics::OnEvaluation(double p_at_1) { p_at_1_.Set(p_at_1); }

}  // namespace dslide
