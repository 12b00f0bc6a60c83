#include "bench/dense/dense_command.h"

#include <omp.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_format.h"
#include "bench/common/bench_data.h"
#include "bench/common/foreign_load.h"
#include "bench/common/machine.h"
#include "bench/common/run_command.h"
#include "bench/dense/dense_run.h"
#include "core/base/status_macros.h"
#include "core/engine/data/sparse_dataset.h"
#include "core/net/metrics/process_stats.h"

namespace dslide::bench {
namespace {

struct DenseCommand {
  std::string data;
  DataShape shape;
  DenseRunOptions run;
  int threads = 0;
  std::string output = "text";
};

absl::Status Run(DenseCommand& options) {
  options.run.parallelism.threads = options.threads > 0 ? options.threads : omp_get_num_procs();
  const Parallelism parallelism = options.run.parallelism;
  if (options.data.empty()) {
    ASSIGN_OR_RETURN(const DataFiles files, MakeData(options.shape, parallelism));
    options.data = files.train;
  }
  SparseDatasetOptions sparse;
  sparse.parallelism = parallelism;
  ASSIGN_OR_RETURN(const auto data, SparseDataset::Open(options.data, sparse));
  const ForeignLoad foreign;
  ASSIGN_OR_RETURN(const DenseRunResult result, RunDense(*data, options.run));
  nlohmann::ordered_json json = result.ToJson();
  json["threads"] = parallelism.threads;
  json["peak_rss_bytes"] = static_cast<int64_t>(ProcessPeakResidentBytes());
  json.update(DescribeMachine());
  json["foreign_load"] = foreign.Processors();
  if (options.output == "json") {
    PrintResult(json);
    return absl::OkStatus();
  }
  PrintResult(absl::StrFormat(
      "Dense full softmax, %d-%d-%d, batch %d, %d threads: %.1f samples/s (%.3f s a step, spread "
      "%.0f %% of %d steps), loss %.4f to %.4f",
      data->num_features(), options.run.hidden, data->num_labels(), result.batch,
      parallelism.threads, result.samples_per_second, result.step_seconds, 100 * result.spread,
      result.steps.size(), result.steps.front().loss, result.steps.back().loss));
  return absl::OkStatus();
}

}  // namespace

void AddDenseCommand(CliCommand app, int* exit_code) {
  const CliCommand command =
      app.AddSubcommand("dense", "Time the dense baseline: full softmax, Adam, BLAS");
  auto options = std::make_shared<DenseCommand>();  // shared with the callback
  command.Add("--data", options->data, "Sparse text; without it data is generated");
  AddShapeOptions(command, options->shape);
  command.Add("--hidden", options->run.hidden, "Hidden units");
  command.Add("--batch", options->run.batch, "Samples of a step");
  command.Add("--steps", options->run.steps, "Steps that are timed");
  command.Add("--learning-rate", options->run.learning_rate, "Of Adam");
  command.Add("--seed", options->run.seed, "Of first weights and of the order of points");
  command.Add("--threads", options->threads, "0: all of the machine");
  command.Add("-o,--output", options->output, "Form of the result: text or json")
      .OneOf({"text", "json"});
  command.OnChosen([options, exit_code] { *exit_code = ExitCode("dense", Run(*options)); });
}

}  // namespace dslide::bench
