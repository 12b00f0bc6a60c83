#include "client/cli/report/command_report.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/cluster/connect.h"
#include "client/cli/cluster/job_view.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/terminal.h"
#include "client/cli/model/model_dir.h"
#include "client/cli/report/report_page.h"
#include "client/cli/report/training_counts.h"
#include "client/cli/train/accuracy_report.h"
#include "client/cli/train/model_session.h"
#include "client/components/ranking.h"
#include "client/trainer/trainer.h"
#include "core/base/status_macros.h"
#include "core/engine/data/file_output.h"

namespace dslide::cli {
namespace {

struct ReportOptions {
  ModelOptions model;
  std::string job;
  std::string data;
  std::string training_data;
  AccuracyOptions accuracy;
  std::string html = "report.html";
};

// The job that was named, or the only one of the model.
absl::StatusOr<JobStatus> ChooseJob(const ClusterStatus& status, const ReportOptions& options) {
  std::vector<std::string> names;
  const JobStatus* chosen = nullptr;
  for (const JobStatus& job : status.jobs) {
    const bool named = !options.job.empty() && job.job == options.job;
    const bool fits = options.model.name.empty() || job.model == options.model.name;
    if (named && !fits) {
      return absl::InvalidArgumentError(absl::StrCat("--job ", job.job, " trains model ", job.model,
                                                     ", not ", options.model.name, " (--name)"));
    }
    if (named || (options.job.empty() && fits)) {
      chosen = &job;
      names.push_back(job.job);
    }
  }
  if (names.empty()) {
    return absl::NotFoundError(
        options.job.empty()
            ? "the cluster has no job of this model: dslide job list"
            : absl::StrCat("there is no job \"", options.job, "\": dslide job list"));
  }
  if (names.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the cluster has several jobs, choose one with --job: ", absl::StrJoin(names, ", ")));
  }
  return *chosen;
}

absl::Status AddJob(const GlobalOptions& global, ReportOptions& options, RunReport& report) {
  ASSIGN_OR_RETURN(const auto client, ConnectToCoordinator(global, options.model.cluster));
  ASSIGN_OR_RETURN(const ClusterStatus status, client->GetClusterStatus());
  ASSIGN_OR_RETURN(report.job, ChooseJob(status, options));
  options.model.name = report.job->model;
  report.trained_by = absl::StrCat("a cluster of dslide ", status.version, " (", status.revision,
                                   "), ", status.shards.size(), " shards");
  ASSIGN_OR_RETURN(const std::vector<ModelSpec> models, client->ListModels());
  const auto found = std::find_if(models.begin(), models.end(), [&](const ModelSpec& model) {
    return model.name == report.job->model;
  });
  if (found == models.end()) {
    return absl::NotFoundError(
        absl::StrCat("there is no model \"", report.job->model, "\" any more: dslide model list"));
  }
  report.spec = *found;
  return absl::OkStatus();
}

absl::Status AddDirectory(const std::string& path, RunReport& report) {
  ASSIGN_OR_RETURN(const StoredModel model, LoadModel(path));
  if (report.job.has_value() && model.spec.name != report.job->model) {
    return absl::InvalidArgumentError(absl::StrCat("--model-dir ", path, " is of model ",
                                                   model.spec.name, ", job ", report.job->job,
                                                   " trains ", report.job->model));
  }
  if (!report.job.has_value()) {
    report.spec = model.spec;
    report.trained_by =
        absl::StrCat("dslide ", model.origin.version, " (", model.origin.revision, ")");
  }
  report.label_counts = model.label_counts;
  if (model.run_record.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(report.record,
                   RunRecordFromJson(model.run_record, absl::StrCat(path, "/run.json")));
  if (report.record->result.is_object()) {
    report.accuracy = report.record->result;
    report.measured_on = absl::StrCat(report.record->eval, ", at the end of the training");
  }
  return absl::OkStatus();
}

// One pass over the test points for all figures.
absl::Status Measure(const GlobalOptions& global, const ReportOptions& options, RunReport& report) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> cutoffs, CheckAccuracyOptions(options.accuracy));
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelSession> session,
                   ModelSession::Open(global, options.model));
  ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> data, session->OpenDataset(options.data));
  RETURN_IF_ERROR(CheckHasLabels(*data));
  ASSIGN_OR_RETURN(report.label_counts, TrainingCounts(*session, options.training_data, *data));
  const LabelCounts& counts = report.label_counts;
  std::vector<float> inverse_propensities;
  if (counts.points > 0) {
    inverse_propensities =
        InversePropensities(counts.of_label, counts.points, options.accuracy.propensity);
  }
  FrequencyAccuracy frequency(counts.of_label);
  const auto rank = [&](SparseBatch samples, absl::Span<const int64_t> points,
                        int64_t k) -> absl::StatusOr<std::vector<Prediction>> {
    const SparseBatch asked = samples;
    ASSIGN_OR_RETURN(std::vector<Prediction> predictions,
                     session->Rank(std::move(samples), points, k, /*hashed=*/false));
    for (int64_t s = 0; counts.points > 0 && s < asked.samples(); ++s) {
      frequency.Add(predictions[static_cast<size_t>(s)].labels, asked.LabelsOf(s));
    }
    return predictions;
  };
  ASSIGN_OR_RETURN(const std::vector<AccuracyAtK> accuracy,
                   MeasureRanking(*data, AllPoints(data->num_points()), ComponentSession::kBatch,
                                  RankingMetrics(cutoffs, inverse_propensities), rank, nullptr));
  report.accuracy = nlohmann::ordered_json::object();
  AddAccuracy(cutoffs, accuracy, &report.accuracy);
  report.measured_on = absl::StrCat(options.data, ", by exact search");
  if (counts.points > 0) report.frequency = frequency.Buckets();
  return session->Close();
}

nlohmann::ordered_json ReportToJson(const RunReport& report, const std::string& path,
                                    size_t bytes) {
  nlohmann::ordered_json frequency = nlohmann::ordered_json::array();
  for (const FrequencyBucket& bucket : report.frequency) {
    frequency.push_back({{"training_points", bucket.name},
                         {"labels", bucket.labels},
                         {"wanted", bucket.wanted},
                         {"found_at_1", bucket.found_at_1},
                         {"found_at_3", bucket.found_at_3},
                         {"found_at_5", bucket.found_at_5},
                         {"first", bucket.first},
                         {"first_right", bucket.first_right}});
  }
  nlohmann::ordered_json json = {{"report", path},
                                 {"bytes", bytes},
                                 {"model", report.spec.name},
                                 {"epochs", EpochsToJson(report.epochs())},
                                 {"by_label_frequency", std::move(frequency)}};
  for (const char* key : {"p_at_1", "p_at_3", "p_at_5"}) {
    json[key] = report.accuracy.is_object() && report.accuracy.contains(key)
                    ? report.accuracy[key]
                    : nlohmann::ordered_json(nullptr);
  }
  return json;
}

absl::StatusOr<int> RunReportCommand(const GlobalOptions& global, ReportOptions options) {
  if (options.model.model_dir.empty() && options.model.cluster.empty()) {
    return absl::InvalidArgumentError(
        "name the run: --model-dir DIR, or --cluster HOST:PORT and --job NAME");
  }
  if (!options.job.empty() && options.model.cluster.empty()) {
    return absl::InvalidArgumentError("--job is of a cluster: add --cluster HOST:PORT");
  }
  RunReport report;
  if (!options.model.cluster.empty()) RETURN_IF_ERROR(AddJob(global, options, report));
  if (!options.model.model_dir.empty()) {
    RETURN_IF_ERROR(AddDirectory(options.model.model_dir, report));
  }
  if (!options.data.empty()) RETURN_IF_ERROR(Measure(global, options, report));
  const std::string html = RenderRunReport(report);
  ASSIGN_OR_RETURN(FileOutput file, FileOutput::Create(options.html));
  RETURN_IF_ERROR(file.Append(html));
  RETURN_IF_ERROR(file.Commit());
  PrintLine(global.json()
                ? ReportToJson(report, options.html, html.size()).dump()
                : absl::StrCat("The report is in ", options.html, ": open it in a browser."));
  return kExitOk;
}

}  // namespace

void AddReportCommand(CliCommand app, Context& context) {
  const CliCommand command = app.AddSubcommand(
      "report", "Write one HTML file of a training: curves, accuracy, spec, data, machine",
      "Examples:\n"
      "  dslide report --model-dir my-model\n"
      "  dslide report --model-dir my-model --data test.txt --html report.html\n"
      "      With the accuracy by how often labels occur in training.\n"
      "  dslide report --cluster 127.0.0.1:7000 --job run-1\n"
      "      Of a job, also while it trains.");
  auto options = std::make_shared<ReportOptions>();  // shared with the callback
  AddModelDataOptions(command, options->model);
  AddOption(command, "--job", options->job, "The training job, where the model has several");
  AddOption(command, "--data", options->data, "Test points with labels, to measure now");
  AddOption(command, "--training-data", options->training_data,
            "The training file, where the model was not kept with the counts of its labels");
  AddAccuracyOptions(command, options->accuracy);
  AddOption(command, "--html", options->html, "File to write").ShowDefault();
  RunWhenChosen(command, context, options, RunReportCommand);
}

}  // namespace dslide::cli
