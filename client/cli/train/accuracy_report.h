// What is measured of a model's rankings, as flags say it, and how it is shown.

#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/engine/data/dataset_info.h"
#include "core/engine/eval/propensity.h"
#include "core/engine/eval/ranking_metrics.h"
#include "core/flags/command_line.h"

namespace dslide::cli {

struct AccuracyOptions {
  std::vector<int64_t> cutoffs = {1, 3, 5};  // each in [1, 1024]; 1, 3 and 5 are always measured
  PropensityModel propensity = {};
};

void AddAccuracyOptions(CliCommand app, AccuracyOptions& options);

// The cut-offs to measure at, ascending: those of the options, 1, 3 and 5.
// Errors: InvalidArgument naming the flag, also for the propensity's constants.
absl::StatusOr<std::vector<int64_t>> CheckAccuracyOptions(const AccuracyOptions& options);

// Adds p_at_K for each cut-off, then ndcg_at_K, recall_at_K, psp_at_K and psndcg_at_K. Null when
// `accuracy` (one entry a cut-off, or none) does not have it.
void AddAccuracy(absl::Span<const int64_t> cutoffs, const std::vector<AccuracyAtK>& accuracy,
                 nlohmann::ordered_json* json);

// Precision, then the other metrics that there are, a column a cut-off; without the last newline.
// `baseline` is that of always naming the most frequent labels.
std::string AccuracyTable(const std::vector<AccuracyAtK>& accuracy,
                          const std::optional<PrecisionAtK>& baseline);

}  // namespace dslide::cli
