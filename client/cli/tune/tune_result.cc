#include "client/cli/tune/tune_result.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/console/terminal.h"
#include "client/cli/train/accuracy_report.h"

namespace dslide::cli {
namespace {

constexpr int64_t kCutoffs[] = {1, 3, 5};

std::vector<TrialResult> BestFirst(std::vector<TrialResult> measured) {
  std::stable_sort(measured.begin(), measured.end(),
                   [](const TrialResult& a, const TrialResult& b) {
                     if (a.points != b.points) return a.points > b.points;
                     return a.quality != b.quality ? a.quality > b.quality : a.trial < b.trial;
                   });
  return measured;
}

nlohmann::ordered_json TrialToJson(const TrialResult& measured) {
  nlohmann::ordered_json settings = nlohmann::ordered_json::object();
  for (const auto& [name, value] : measured.settings) settings[name] = value;
  return {{"trial", measured.trial},
          {"points", measured.points},
          {"quality", measured.quality},
          {"seconds", measured.seconds},
          {"settings", std::move(settings)}};
}

std::string LeftText(const TuneResult& result) {
  std::string text;
  for (size_t rung = 0; rung < result.left.size(); ++rung) {
    if (result.left[rung] == 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", result.left[rung], " on ",
                    WithThousands(result.rung_points[rung]), " points");
  }
  return text.empty() ? "" : absl::StrCat("\n\nNot begun: ", text, ".");
}

}  // namespace

void CompareWithDefault(const std::vector<double>& winner, const std::vector<double>& by_default,
                        TuneResult& result) {
  const auto points = static_cast<double>(winner.size());
  double sum = 0;
  double squares = 0;
  for (size_t i = 0; i < winner.size(); ++i) {
    const double difference = winner[i] - by_default[i];
    sum += difference;
    squares += difference * difference;
  }
  result.gain = sum / points;
  result.gain_error =
      std::sqrt(std::max(0.0, squares / points - result.gain * result.gain) / points);
}

std::string DescribeSettings(const std::vector<std::pair<std::string, double>>& settings) {
  if (settings.empty()) return "the default";
  std::string text;
  for (const auto& [name, value] : settings) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", name, " ", value);
  }
  return text;
}

std::string TuneResultToJson(const TuneResult& result) {
  nlohmann::ordered_json json;
  json["winner"] = TrialToJson(result.winner);
  json["gain"] = result.gain;
  json["gain_error"] = result.gain_error;
  AddAccuracy(kCutoffs, result.accuracy, &json);
  json["measured"] = nlohmann::ordered_json::array();
  for (const TrialResult& measured : BestFirst(result.measured)) {
    json["measured"].push_back(TrialToJson(measured));
  }
  json["judged_points"] = result.judged_points;
  json["fitted_points"] = result.fitted_points;
  json["rung_points"] = result.rung_points;
  json["left"] = result.left;
  json["interrupted"] = result.interrupted;
  json["seconds"] = result.seconds;
  json["seed"] = result.seed;
  json["commit"] = result.commit;
  return json.dump();
}

std::string TuneResultToText(const TuneResult& result) {
  std::vector<std::vector<std::string>> rows;
  for (const TrialResult& measured : BestFirst(result.measured)) {
    rows.push_back({absl::StrCat(measured.trial), WithThousands(measured.points),
                    absl::StrFormat("%.4f", measured.quality),
                    absl::StrFormat("%.1f", measured.seconds),
                    DescribeSettings(measured.settings)});
  }
  std::string text =
      absl::StrCat(FormatTable({"trial", "points", "quality", "seconds", "settings"}, rows),
                   "\nQuality: mean of P@1, P@3 and P@5 on ", WithThousands(result.judged_points),
                   " held-out points.", LeftText(result), "\n\nBest: trial ", result.winner.trial,
                   ", ", DescribeSettings(result.winner.settings), ".");
  if (result.winner.trial != 0) {
    absl::StrAppendFormat(&text,
                          "\nIt is better than the default by %.4f, with a standard error of %.4f; "
                          "the best of many looks better than it is.",
                          result.gain, result.gain_error);
  }
  if (!result.accuracy.empty()) {
    absl::StrAppend(&text, "\nTrained on all points:\n\n",
                    AccuracyTable(result.accuracy, std::nullopt));
  }
  return text;
}

}  // namespace dslide::cli
