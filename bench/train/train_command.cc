#include "bench/train/train_command.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/common/bench_data.h"
#include "bench/common/foreign_load.h"
#include "bench/common/machine.h"
#include "bench/common/run_command.h"
#include "bench/common/statistics.h"
#include "bench/dense/dense_run.h"
#include "bench/train/training_child.h"
#include "client/cli/train/data_source.h"
#include "client/cli/train/spec_options.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/engine/data/sparse_dataset.h"
#include "core/spec/model_spec.h"

namespace dslide::bench {
namespace {

using Json = nlohmann::ordered_json;

struct TrainCommand {
  std::string data;
  std::string eval;
  DataShape shape;
  std::string model;
  int64_t shards = 1;
  int64_t epochs = 2;
  int64_t steps = 0;
  int64_t dense_steps = 3;
  int64_t threads = 0;
  int64_t max_seconds = 420;
  RepeatRule repeat;
  std::string output = "text";
};

absl::Status CheckOptions(const TrainCommand& options) {
  if (options.data.empty() && !options.eval.empty()) {
    return absl::InvalidArgumentError(
        "--eval without --data: generated data has its own test part");
  }
  if (options.repeat.min_repeats < 1 || options.repeat.max_repeats < options.repeat.min_repeats) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--min-repeats ", options.repeat.min_repeats, " and --max-repeats ",
        options.repeat.max_repeats, ": at least 1, and the second not below the first"));
  }
  return absl::OkStatus();
}

std::vector<std::string> TrainingArguments(const TrainCommand& options) {
  std::vector<std::string> words = {
      "--data", options.data, "--shards", absl::StrCat(options.shards), "--epochs",
      absl::StrCat(options.epochs), "--steps", absl::StrCat(options.steps), "--threads",
      absl::StrCat(options.threads),
      // Nothing is held out: every second is training.
      "--validation-fraction", "0"};
  if (!options.eval.empty()) words.insert(words.end(), {"--eval", options.eval});
  if (!options.model.empty()) words.insert(words.end(), {"--model", options.model});
  return words;
}

// Trains until the spread of the samples per second is small. Returns the report of the median run,
// with "samples_per_second", "repeats" and "spread" of all of them.
absl::StatusOr<Json> RepeatTraining(const TrainCommand& options) {
  const std::vector<std::string> arguments = TrainingArguments(options);
  const absl::Duration begin = SteadyClock().Now();
  std::vector<Json> reports;
  std::vector<double> speeds;
  while (!options.repeat.Enough(speeds)) {
    Say(absl::StrCat("Training with dslide, run ", speeds.size() + 1, " of at most ",
                     options.repeat.max_repeats));
    ASSIGN_OR_RETURN(reports.emplace_back(), RunTraining(arguments));
    speeds.push_back(reports.back().value("samples_per_second", 0.0));
    Say(absl::StrFormat("  %.1f samples/s", speeds.back()));
    const absl::Duration spent = SteadyClock().Now() - begin;
    const auto runs = static_cast<double>(speeds.size());
    if (spent * (1.0 + 1.0 / runs) > absl::Seconds(options.max_seconds)) break;
  }
  const double median = Median(speeds);
  size_t nearest = 0;
  for (size_t i = 1; i < speeds.size(); ++i) {
    if (std::abs(speeds[i] - median) < std::abs(speeds[nearest] - median)) nearest = i;
  }
  Json report = reports[nearest];
  report["samples_per_second"] = median;
  report["repeats"] = speeds.size();
  report["spread"] = Spread(speeds);
  if (!report.contains("stages")) report["stages"] = Json::object();
  return report;
}

absl::StatusOr<DenseRunResult> TrainDense(const TrainCommand& options, const Dataset& data,
                                          const ModelSpec& spec) {
  DenseRunOptions dense;
  dense.hidden = spec.tables.front().dim;
  dense.batch = spec.training.batch_size;
  dense.learning_rate = static_cast<float>(spec.tables.front().optimizer.learning_rate);
  dense.steps = options.dense_steps;
  dense.seed = spec.seed;
  dense.parallelism = cli::ThreadsOrAll(options.threads);
  Say(absl::StrCat("Dense baseline, ", dense.steps, " steps"));
  return RunDense(data, dense);
}

// Adds the shape and the baseline's figures; null ones, said aloud, when this build has none.
absl::Status AddDense(const TrainCommand& options, Json& json) {
  json["dense_samples_per_second"] = nullptr;
  json["speedup_vs_dense"] = nullptr;
  SparseDatasetOptions sparse;
  sparse.parallelism = cli::ThreadsOrAll(options.threads);
  ASSIGN_OR_RETURN(const auto data, SparseDataset::Open(options.data, sparse));
  cli::SpecOptions spec_options;
  spec_options.network = true;
  spec_options.model_file = options.model;
  ASSIGN_OR_RETURN(const ModelSpec spec, cli::ResolveSpec(spec_options, *data));
  json["features"] = data->num_features();
  json["hidden"] = spec.tables.front().dim;
  json["labels"] = data->num_labels();
  json["points"] = data->num_points();
  if (options.dense_steps == 0) return absl::OkStatus();
  const absl::StatusOr<DenseRunResult> dense = TrainDense(options, *data, spec);
  if (absl::IsUnimplemented(dense.status())) {
    Say(absl::StrCat("skipped: ", dense.status().message()));
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(dense.status());
  json["dense_samples_per_second"] = dense->samples_per_second;
  json["speedup_vs_dense"] = json.value("samples_per_second", 0.0) / dense->samples_per_second;
  json["dense"] = dense->ToJson();
  return absl::OkStatus();
}

void PrintText(const Json& json) {
  const auto number = [&](const char* name) {
    return json.contains(name) && json[name].is_number() ? json[name].get<double>() : 0.0;
  };
  PrintResult(absl::StrFormat("dslide          %8.1f samples/s  (median of %d, spread %.0f %%)",
                              number("samples_per_second"), json.value("repeats", 0),
                              100 * number("spread")));
  if (json.contains("dense")) {
    PrintResult(absl::StrFormat(
        "dense baseline  %8.1f samples/s  (median of %d steps, spread %.0f %%)\nspeedup         "
        "%8.2f",
        number("dense_samples_per_second"), json["dense"].value("steps", 0),
        100 * json["dense"].value("spread", 0.0), number("speedup_vs_dense")));
  }
  if (number("p_at_1") > 0) PrintResult(absl::StrFormat("P@1             %8.4f", number("p_at_1")));
  for (const auto& [stage, seconds] : json["stages"].items()) {
    if (seconds.is_number()) {
      PrintResult(absl::StrFormat("  %-28s %8.2f s", stage, seconds.get<double>()));
    }
  }
  PrintResult(absl::StrFormat("commit %s, %s x %d, foreign load %.2f processors",
                              json.value("commit", "?"), json.value("cpu", "?"),
                              json.value("processors", 0), number("foreign_load")));
}

absl::Status Run(TrainCommand& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  // Shards and the trainer share the processors: a thread that waits for work must not spin.
  setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/0);
  if (options.data.empty()) {
    ASSIGN_OR_RETURN(const DataFiles files,
                     MakeData(options.shape, cli::ThreadsOrAll(options.threads)));
    options.data = files.train;
    options.eval = files.eval;
  }
  const ForeignLoad foreign;
  ASSIGN_OR_RETURN(Json json, RepeatTraining(options));
  RETURN_IF_ERROR(AddDense(options, json));
  json["shards"] = options.shards;
  json.update(DescribeMachine());
  json["foreign_load"] = foreign.Processors();
  if (options.output == "json") {
    PrintResult(json);
  } else {
    PrintText(json);
  }
  return absl::OkStatus();
}

}  // namespace

void AddTrainCommand(CliCommand app, int* exit_code) {
  const CliCommand command =
      app.AddSubcommand("train", "Train with dslide and with the dense baseline, same data");
  auto options = std::make_shared<TrainCommand>();  // shared with the callback
  command.Add("--data", options->data, "Sparse text; without it data is generated");
  command.Add("--eval", options->eval, "Test data");
  AddShapeOptions(command, options->shape);
  command.Add("--model", options->model, "Model spec (JSON, see docs/models)");
  command.Add("--shards", options->shards, "Embedded shards");
  command.Add("--epochs", options->epochs, "Epochs of each run");
  command.Add("--steps", options->steps, "Steps of each run at most; 0: no limit");
  command.Add("--dense-steps", options->dense_steps, "Steps of the baseline; 0: none");
  command.Add("--threads", options->threads, "0: all of the machine");
  command.Add("--min-repeats", options->repeat.min_repeats, "Runs at least");
  command.Add("--max-repeats", options->repeat.max_repeats, "Runs at most");
  command.Add("--max-spread", options->repeat.spread, "Spread at which runs are enough");
  command.Add("--max-seconds", options->max_seconds,
              "No further run when it would end later than this");
  command.Add("-o,--output", options->output, "Form of the result: text or json")
      .OneOf({"text", "json"});
  command.OnChosen([options, exit_code] { *exit_code = ExitCode("train", Run(*options)); });
}

}  // namespace dslide::bench
