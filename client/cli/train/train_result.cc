#include "client/cli/train/train_result.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/console/terminal.h"
#include "client/cli/train/accuracy_report.h"

namespace dslide::cli {
namespace {

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0.0; }

// Three digits, and no exponent.
std::string InTimes(double ratio) {
  return ratio < 999.5 ? absl::StrFormat("%.3g", ratio) : WithThousands(std::llround(ratio));
}

// Without hashing every row is a candidate: nothing is missed.
double Recall(int64_t found, int64_t asked) {
  return asked > 0 ? static_cast<double>(found) / static_cast<double>(asked) : 1.0;
}

void AddComponents(const ComponentReport& report, nlohmann::ordered_json* json) {
  nlohmann::ordered_json components;
  for (const ComponentQuality& component : report.components) {
    components[component.name] = {{"held_out_precision", component.quality},
                                  {"weight", component.weight}};
  }
  (*json)["points"] = report.points;
  (*json)["held_out_points"] = report.held_out;
  (*json)["held_out_precision"] = report.fused_quality;
  (*json)["preselected_candidates"] = report.preselected;
  (*json)["linear_entries"] = report.entries;
  (*json)["components"] = std::move(components);
}

std::string ComponentsToText(const TrainResult& result) {
  const ComponentReport& report = *result.components;
  std::string text = absl::StrFormat(
      "Trained on %s points in %s; %s weights in linear rows.", WithThousands(report.points),
      FormatElapsed(absl::Seconds(result.report.seconds)), WithThousands(report.entries));
  if (report.held_out > 0) {
    absl::StrAppendFormat(&text,
                          "\n\nMean of P@1, P@3 and P@5 on %s held-out points   alone   weight",
                          WithThousands(report.held_out));
    for (const ComponentQuality& component : report.components) {
      absl::StrAppendFormat(&text, "\n  %-44s %8.4f %8.3f", component.name, component.quality,
                            component.weight);
    }
    absl::StrAppendFormat(&text, "\n  %-44s %8.4f", "all of them, added up", report.fused_quality);
    if (!report.alone.empty()) {
      absl::StrAppend(&text, "\n", report.alone, " alone is better, and decides.");
    }
  }
  if (!result.accuracy.empty()) {
    absl::StrAppend(&text, "\n\n", AccuracyTable(result.accuracy, result.baseline));
  }
  absl::StrAppend(&text, "\n\nBytes moved in training  ",
                  ReadableBytes(static_cast<double>(result.training_traffic.bytes_sent +
                                                    result.training_traffic.bytes_received)),
                  "\nPeak memory              ", ReadableBytes(result.peak_rss_bytes));
  return text;
}

}  // namespace

void AddTrainerStages(const StageSeconds& seconds, std::map<std::string, double>& stages) {
  stages["trainer_wait_embed_forward"] = seconds.wait_embed_forward;
  stages["trainer_wait_head_forward"] = seconds.wait_head_forward;
  stages["trainer_wait_head_backward"] = seconds.wait_head_backward;
  stages["trainer_fingerprints"] = seconds.hash;
  stages["trainer_compute"] = seconds.compute - seconds.hash;
}

std::string TrainResultToJson(const TrainResult& result) {
  const TrainingReport& report = result.report;
  const auto samples = static_cast<double>(report.samples);
  const auto steps = static_cast<double>(report.steps);
  nlohmann::ordered_json json;
  json["samples_per_second"] = Ratio(samples, report.seconds);
  json["steps"] = report.steps;
  json["epochs"] = report.epochs;
  json["seconds"] = report.seconds;
  json["loss"] = report.last_loss;
  json["first_loss"] = report.first_loss;
  AddAccuracy(result.cutoffs, result.accuracy, &json);
  json["active_rows_per_sample"] = Ratio(static_cast<double>(report.active_pairs), samples);
  json["distinct_rows_per_batch"] = Ratio(static_cast<double>(report.distinct_rows), steps);
  json["rejected_rows"] = report.rejected_rows;
  json["hash_recall_top1"] = Recall(result.recall.top_1_found, result.recall.samples);
  json["hash_recall_top10"] = Recall(result.recall.top_10_found, result.recall.top_10);
  json["bytes_sent"] = result.traffic.bytes_sent;
  json["bytes_received"] = result.traffic.bytes_received;
  json["dense_equivalent_bytes"] = result.dense_bytes_per_step * report.steps;
  json["peak_rss_bytes"] = static_cast<int64_t>(result.peak_rss_bytes);
  json["stages"] = result.stages;
  if (result.components.has_value()) AddComponents(*result.components, &json);
  if (report.cancelled) json["cancelled"] = true;
  json["seed"] = result.seed;
  json["commit"] = result.commit;
  return json.dump();
}

std::string TrainResultToText(const TrainResult& result) {
  if (result.components.has_value()) return ComponentsToText(result);
  const TrainingReport& report = result.report;
  const auto samples = static_cast<double>(report.samples);
  std::string text = absl::StrFormat(
      "Trained %s samples in %s steps, %d epochs, %s (%.0f samples/s, evaluations not counted).",
      WithThousands(report.samples), WithThousands(report.steps), report.epochs,
      FormatElapsed(absl::Seconds(report.seconds)), Ratio(samples, report.seconds));
  if (report.cancelled) absl::StrAppend(&text, "\nThe job was cancelled before its last epoch.");
  if (report.best_epoch >= 0) {
    absl::StrAppendFormat(&text, "\nBest epoch: %d, P@1 %.4f on the held-out points%s.",
                          report.best_epoch + 1, report.best_metric,
                          report.best_restored ? "; its state is the result" : "");
  }
  if (!result.accuracy.empty()) {
    absl::StrAppend(&text, "\n\n", AccuracyTable(result.accuracy, result.baseline));
  }
  const double active = Ratio(static_cast<double>(report.active_pairs), samples);
  absl::StrAppendFormat(
      &text, "\n\nActive rows per sample   %s (distinct rows per step: %s)",
      WithThousands(static_cast<int64_t>(active)),
      WithThousands(static_cast<int64_t>(
          Ratio(static_cast<double>(report.distinct_rows), static_cast<double>(report.steps)))));
  if (report.rejected_rows > 0) {
    absl::StrAppend(&text, "\nUpdates left out         ", WithThousands(report.rejected_rows),
                    " of rows that would go beyond magnitude_bound: lower the learning rate");
  }
  if (result.recall.samples > 0) {
    absl::StrAppendFormat(&text,
                          "\nHash recall              top-1 %.3f, top-10 %.3f of the exact best",
                          Recall(result.recall.top_1_found, result.recall.samples),
                          Recall(result.recall.top_10_found, result.recall.top_10));
  }
  const double moved = static_cast<double>(result.training_traffic.bytes_sent +
                                           result.training_traffic.bytes_received);
  const double dense =
      static_cast<double>(result.dense_bytes_per_step) * static_cast<double>(report.steps);
  absl::StrAppendFormat(&text,
                        "\nBytes moved in training  %s (dense all-reduce: %s, %s times as much)",
                        ReadableBytes(moved), ReadableBytes(dense), InTimes(Ratio(dense, moved)));
  absl::StrAppendFormat(&text, "\nPeak memory              %s",
                        ReadableBytes(result.peak_rss_bytes));
  return text;
}

}  // namespace dslide::cli
