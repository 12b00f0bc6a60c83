#include "client/trainer/trainer_metrics.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

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
    stage_seconds_[i] = metrics.AddHistogram(
        "dslide_trainer_stage_seconds",
        "Time of the trainer's own stages, one observation per step. hash is a part of compute.",
        {{"stage", stages[i]}});
  }
  metrics.AddGaugeCallback(this, "dslide_trainer_bytes_per_sample",
                           "Bytes of steps, both ways, for each point trained since the start.", {},
                           [this] { return BytesPerSample(); });
  metrics.AddGaugeCallback(
      this, "dslide_trainer_saved_bytes_ratio",
      "Share of the bytes of dense data-parallel training that were not moved since the start.", {},
      [this] { return SavedBytesRatio(); });
  counters.Export(metrics, "trainer");
}

TrainerMetrics::~TrainerMetrics() {
  metrics_.RemoveCallbacks(this);
  metrics_.RemoveCallbacks(&counters_);
}

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
  const StageSeconds before = std::exchange(observed_, seconds);
  stage_seconds_[0].Observe(seconds.wait_embed_forward - before.wait_embed_forward);
  stage_seconds_[1].Observe(seconds.wait_head_forward - before.wait_head_forward);
  stage_seconds_[2].Observe(seconds.wait_head_backward - before.wait_head_backward);
  stage_seconds_[3].Observe(seconds.hash - before.hash);
  stage_seconds_[4].Observe(seconds.compute - before.compute);
}

void TrainerMetrics::OnEvaluation(double p_at_1) { p_at_1_.Set(p_at_1); }

double TrainerMetrics::BytesPerSample() const {
  const WireTraffic steps = counters_.Of(WireMethod::kStep);
  const double samples = samples_.Value();
  return samples == 0 ? 0 : double(steps.bytes_sent + steps.bytes_received) / samples;
}

double TrainerMetrics::SavedBytesRatio() const {
  const WireTraffic steps = counters_.Of(WireMethod::kStep);
  const double dense = dense_bytes_.Value();
  return dense == 0 ? 0 : 1 - double(steps.bytes_sent + steps.bytes_received) / dense;
}

StatusPage TrainerMetrics::Page() const {
  const WireTraffic all = counters_.Total();
  const double samples = samples_.Value();
  StatusPage page;
  page.facts = {
      {"Steps", PageCount(steps_.Value())},
      {"Samples", PageCount(samples)},
      {"Epoch", PageCount(epoch_.Value() + 1)},
      {"Loss of the last step", absl::StrFormat("%.4f", loss_.Value())},
      {"Held-out P@1", absl::StrFormat("%.4f", p_at_1_.Value())},
      {"Active rows per sample", PageCount(active_rows_.Value() / samples)},
      {"Hash recall, top 10", PagePercent(recall_top_10_.Value() / recall_top_10_asked_.Value())},
      {"Bytes sent", PageBytes(static_cast<double>(all.bytes_sent))},
      {"Bytes received", PageBytes(static_cast<double>(all.bytes_received))},
      {"Bytes per sample", PageBytes(BytesPerSample())},
      {"Bytes saved", absl::StrCat(PagePercent(SavedBytesRatio()),
                                   " of what dense data-parallel training would move")}};
  return page;
}

}  // namespace dslide
