// dslide eval

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands/command_line.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/terminal.h"
#include "client/cli/report/training_counts.h"
#include "client/cli/train/accuracy_report.h"
#include "client/cli/train/label_filter.h"
#include "client/cli/train/model_session.h"
#include "client/trainer/trainer.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"

namespace dslide::cli {
namespace {

struct EvalOptions {
  ModelOptions model;
  std::string data;
  std::string training_data;
  AccuracyOptions accuracy;
  FilterOptions filter;
};

// 1 / propensity of each label. Empty, with a note to stderr, when nothing says how often labels
// occur in training.
absl::StatusOr<std::vector<float>> PropensitiesFor(const EvalOptions& options,
                                                   const ModelSession& session,
                                                   const Dataset& data) {
  ASSIGN_OR_RETURN(const LabelCounts counts, TrainingCounts(session, options.training_data, data));
  if (counts.points > 0) {
    return InversePropensities(counts.of_label, counts.points, options.accuracy.propensity);
  }
  PrintNote(absl::StrCat(
      "dslide eval: note: PSP@k and PSnDCG@k need to know how often each label occurs ",
      "in training, ",
      options.model.model_dir.empty() ? "which the cluster does not say"
                                      : "which the model directory does not say",
      ": name the training file with --training-data FILE"));
  return std::vector<float>();
}

absl::StatusOr<int> RunEval(const GlobalOptions& global, const EvalOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> cutoffs, CheckAccuracyOptions(options.accuracy));
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelSession> session,
                   ModelSession::Open(global, options.model));
  ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> data, session->OpenDataset(options.data));
  RETURN_IF_ERROR(CheckHasLabels(*data));
  ASSIGN_OR_RETURN(const std::vector<float> inverse_propensities,
                   PropensitiesFor(options, *session, *data));
  std::optional<LabelFilter> filter;
  if (options.filter.any()) {
    ASSIGN_OR_RETURN(filter,
                     LabelFilter::Create(options.filter, session->model(), data->num_points()));
  }
  const absl::Duration start = SteadyClock().Now();
  ASSIGN_OR_RETURN(const std::vector<AccuracyAtK> accuracy,
                   session->Evaluate(*data, RankingMetrics(cutoffs, inverse_propensities),
                                     filter.has_value() ? &*filter : nullptr));
  const double seconds = absl::ToDoubleSeconds(SteadyClock().Now() - start);
  ASSIGN_OR_RETURN(const RecallCount recall, session->MeasureRecall(*data));
  const auto part = [](int64_t found, int64_t asked) {
    return asked > 0 ? static_cast<double>(found) / static_cast<double>(asked) : 1.0;
  };
  if (global.json()) {
    nlohmann::ordered_json json;
    AddAccuracy(cutoffs, accuracy, &json);
    json["points"] = data->num_points();
    if (filter.has_value()) {
      json["predictions_left_out"] = filter->counts().predictions;
      json["true_labels_left_out"] = filter->counts().true_labels;
    }
    json["seconds"] = seconds;
    json["hash_recall_top1"] = part(recall.top_1_found, recall.samples);
    json["hash_recall_top10"] = part(recall.top_10_found, recall.top_10);
    PrintLine(json.dump());
    return kExitOk;
  }
  PrintLine(absl::StrFormat("%s points in %.1f s\n\n%s", WithThousands(data->num_points()), seconds,
                            AccuracyTable(accuracy, std::nullopt)));
  if (filter.has_value()) {
    PrintLine(absl::StrCat("\nLeft out: ", WithThousands(filter->counts().predictions),
                           " predictions; ", WithThousands(filter->counts().true_labels),
                           " true labels cannot be predicted for their points"));
  }
  if (recall.samples > 0) {
    PrintLine(absl::StrFormat("\nHash recall of the exact top-1 %.3f, top-10 %.3f (%s points)",
                              part(recall.top_1_found, recall.samples),
                              part(recall.top_10_found, recall.top_10),
                              WithThousands(recall.samples)));
  }
  return kExitOk;
}

}  // namespace

void AddEvalCommand(CliCommand app, Context& context) {
  const CliCommand command = app.AddSubcommand(
      "eval", "Measure a model's accuracy by exact search: P@k, nDCG@k, recall@k, PSP@k, PSnDCG@k",
      "Examples:\n"
      "  dslide eval --model-dir my-model --data test.txt\n"
      "  dslide eval --model-dir my-model --cluster 127.0.0.1:7000 --data test.txt -o json\n"
      "  dslide eval --model-dir my-model --data test.txt --cutoffs 1,3,5,10,20\n"
      "  dslide eval --model-dir my-model --data users.txt --exclude-inputs");
  auto options = std::make_shared<EvalOptions>();  // shared with the callback
  AddModelDataOptions(command, options->model);
  AddOption(command, "--data", options->data, "Points with labels").Required();
  AddOption(
      command, "--training-data", options->training_data,
      "The training file, for PSP@k and PSnDCG@k of a model that was not kept with its counts");
  AddAccuracyOptions(command, options->accuracy);
  AddFilterOptions(command, options->filter);
  RunWhenChosen(command, context, options, RunEval);
}

}  // namespace dslide::cli
