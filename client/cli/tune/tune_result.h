// What `dslide tune` reports: one JSON object with fixed names, and a table for people.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/data/dataset_info.h"
#include "core/engine/eval/ranking_metrics.h"

namespace dslide::cli {

// One training of one trial.
struct TrialResult {
  int64_t trial = 0;   // 0: the default
  int64_t points = 0;  // it was trained on, those that its fusion was fitted on included
  double quality = 0;  // mean of P@1, P@3 and P@5 on the judged points
  double seconds = 0;
  std::vector<std::pair<std::string, double>> settings = {};  // that differ from the default's
};

struct TuneResult {
  std::vector<TrialResult> measured;
  TrialResult winner;
  // Of the winner over the default on as many points, and the standard error of it; 0 for the
  // default itself.
  double gain = 0;
  double gain_error = 0;
  int64_t judged_points = 0;
  int64_t fitted_points = 0;
  std::vector<int64_t> rung_points;  // [rungs] training points
  std::vector<int64_t> left;         // [rungs] trainings of the present bracket, not begun
  bool interrupted = false;
  std::vector<AccuracyAtK> accuracy;  // of the winner, trained on all points; empty without data
  double seconds = 0;
  uint64_t seed = 0;
  std::string commit;
};

// Sets gain and gain_error. Qualities of the same points, in one order.
void CompareWithDefault(const std::vector<double>& winner, const std::vector<double>& by_default,
                        TuneResult& result);

// "linear.cost 0.5, trees.trees 6"; "the default" without differences.
std::string DescribeSettings(const std::vector<std::pair<std::string, double>>& settings);

// One line. Measurements are in the order of the table. Documented in docs/start/commands.md.
std::string TuneResultToJson(const TuneResult& result);

// Several lines without the last newline: most points first, then the best.
std::string TuneResultToText(const TuneResult& result);

}  // namespace dslide::cli
