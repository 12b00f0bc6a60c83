// What `dslide train` reports: one JSON object with fixed names, and a summary for people.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/components/component_trainer.h"
#include "client/cpp/wire_counters.h"
#include "client/trainer/trainer.h"
#include "core/engine/data/dataset_info.h"
#include "core/engine/eval/ranking_metrics.h"

namespace dslide::cli {

struct TrainResult {
  TrainingReport report;                      // of a network
  std::optional<ComponentReport> components;  // of a model of memory and trees
  WireTraffic traffic;                        // of the whole run, evaluations included
  WireTraffic training_traffic;               // while training
  int64_t dense_bytes_per_step = 0;           // what dense all-reduce would move
  std::vector<int64_t> cutoffs = {1, 3, 5};
  std::vector<AccuracyAtK> accuracy;     // [cutoffs] on the evaluation data; empty without it
  std::optional<PrecisionAtK> baseline;  // of always naming the most frequent labels
  RecallCount recall;                    // of the final model, on the evaluation data
  // Seconds by stage: the shards' (embedded ones only) and the trainer's ("trainer_...").
  std::map<std::string, double> stages;
  double peak_rss_bytes = 0;
  uint64_t seed = 0;
  std::string commit;
};

// One line. Fields without a value (no evaluation data) are null. Documented in
// docs/start/commands.md.
// The trainer's own stages, beside those of the shards.
void AddTrainerStages(const StageSeconds& seconds, std::map<std::string, double>& stages);

std::string TrainResultToJson(const TrainResult& result);

// Several lines without the last newline.
std::string TrainResultToText(const TrainResult& result);

}  // namespace dslide::cli
