#include "client/cli/train/accuracy_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/console/global_options.h"
#include "client/cli/console/terminal.h"
#include "core/base/status_macros.h"

namespace dslide::cli {
namespace {

constexpr int64_t kLargestCutoff = 1024;  // what a shard answers to one query

struct Metric {
  const char* field;  // in JSON, before "_at_K"
  const char* name;   // for people; null: has a table of its own
  std::optional<double> (*value)(const AccuracyAtK& at);
};

using Value = std::optional<double>;
constexpr Metric kMetrics[] = {
    {"p", nullptr, [](const AccuracyAtK& at) { return Value(at.precision); }},
    {"ndcg", "nDCG@k", [](const AccuracyAtK& at) { return Value(at.ndcg); }},
    {"recall", "recall@k", [](const AccuracyAtK& at) { return Value(at.recall); }},
    {"psp", "PSP@k", [](const AccuracyAtK& at) { return at.psp; }},
    {"psndcg", "PSnDCG@k", [](const AccuracyAtK& at) { return at.psndcg; }},
};

std::optional<double> AtCutoff(const PrecisionAtK& precision, int64_t k) {
  if (k == 1) return precision.at_1;
  if (k == 3) return precision.at_3;
  if (k == 5) return precision.at_5;
  return std::nullopt;
}

std::string Cell(const std::optional<double>& value) {
  return value.has_value() ? absl::StrFormat("%.4f", *value) : "-";
}

}  // namespace

void AddAccuracyOptions(CliCommand app, AccuracyOptions& options) {
  AddOption(app, "--cutoffs", options.cutoffs,
            "The k of P@k and the other metrics, beside 1, 3 and 5: 1,3,5,10")
      .Delimiter(',');
  AddOption(app, "--propensity-a", options.propensity.a,
            "Constant A of the labels' propensities: 0.6 for Amazon sets, 0.5 for Wikipedia ones");
  AddOption(app, "--propensity-b", options.propensity.b, "Constant B: 2.6 and 0.4 for these");
}

absl::StatusOr<std::vector<int64_t>> CheckAccuracyOptions(const AccuracyOptions& options) {
  const absl::Status propensity = options.propensity.Validate();
  if (!propensity.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--propensity-a, --propensity-b: ", propensity.message()));
  }
  std::vector<int64_t> cutoffs = {1, 3, 5};
  for (const int64_t k : options.cutoffs) {
    if (k < 1 || k > kLargestCutoff) {
      return absl::InvalidArgumentError(
          absl::StrCat("--cutoffs ", k, ": must be in [1, ", kLargestCutoff, "]"));
    }
    cutoffs.push_back(k);
  }
  std::sort(cutoffs.begin(), cutoffs.end());
  cutoffs.erase(std::unique(cutoffs.begin(), cutoffs.end()), cutoffs.end());
  return cutoffs;
}

void AddAccuracy(absl::Span<const int64_t> cutoffs, const std::vector<AccuracyAtK>& accuracy,
                 nlohmann::ordered_json* json) {
  for (const Metric& metric : kMetrics) {
    for (size_t c = 0; c < cutoffs.size(); ++c) {
      nlohmann::ordered_json& field = (*json)[absl::StrCat(metric.field, "_at_", cutoffs[c])] =
          nullptr;
      if (accuracy.empty()) continue;
      if (const std::optional<double> value = metric.value(accuracy[c])) field = *value;
    }
  }
}

std::string AccuracyTable(const std::vector<AccuracyAtK>& accuracy,
                          const std::optional<PrecisionAtK>& baseline) {
  std::vector<std::string> header = {"precision on the test points"};
  std::vector<std::string> model = {"this model"};
  std::vector<std::string> frequent = {"most frequent labels"};
  std::vector<std::string> other_header = {"other metrics"};
  for (const AccuracyAtK& at : accuracy) {
    header.push_back(absl::StrCat("P@", at.k));
    model.push_back(Cell(at.precision));
    if (baseline.has_value()) frequent.push_back(Cell(AtCutoff(*baseline, at.k)));
    other_header.push_back(absl::StrCat("k = ", at.k));
  }
  std::vector<std::vector<std::string>> rows = {model};
  if (baseline.has_value()) rows.push_back(frequent);
  std::vector<std::vector<std::string>> others;
  for (const Metric& metric : kMetrics) {
    if (metric.name == nullptr || !metric.value(accuracy.front()).has_value()) continue;
    others.push_back({metric.name});
    for (const AccuracyAtK& at : accuracy) others.back().push_back(Cell(metric.value(at)));
  }
  return absl::StrCat(FormatTable(header, rows), "\n\n", FormatTable(other_header, others));
}

}  // namespace dslide::cli
