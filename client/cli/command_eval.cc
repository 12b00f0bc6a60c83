// dslide eval

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/command_line.h"
#include "client/cli/data_source.h"
#include "client/cli/exit_codes.h"
#include "client/cli/model_session.h"
#include "client/cli/terminal.h"
#include "client/trainer/trainer.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"

namespace dslide::cli {
namespace {

constexpr int64_t kRecallPoints = 2000;

struct EvalOptions {
  ModelOptions model;
  std::string data;
};

absl::StatusOr<int> RunEval(const GlobalOptions& global, const EvalOptions& options) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelSession> session,
                   ModelSession::Open(global, options.model));
  std::unique_ptr<Dataset> data;
  if (options.model.model_dir.empty()) {
    ASSIGN_OR_RETURN(data, OpenData(options.data, DataOptions(), nullptr, session->parallelism()));
  } else {
    ASSIGN_OR_RETURN(data, OpenDataFor(session->model(), options.data, session->parallelism()));
  }
  const absl::Duration start = SteadyClock().Now();
  ASSIGN_OR_RETURN(const PrecisionAtK precision,
                   session->evaluator().Evaluate(*data, AllPoints(data->num_points()),
                                                 session->next_step(), nullptr));
  const double seconds = absl::ToDoubleSeconds(SteadyClock().Now() - start);
  const std::vector<int64_t> points = AllPoints(std::min(data->num_points(), kRecallPoints));
  ASSIGN_OR_RETURN(const RecallCount recall,
                   session->evaluator().MeasureRecall(*data, points, session->next_step()));
  const auto part = [](int64_t found, int64_t asked) {
    return asked > 0 ? static_cast<double>(found) / static_cast<double>(asked) : 1.0;
  };
  if (global.json()) {
    nlohmann::ordered_json json;
    json["p_at_1"] = precision.at_1;
    json["p_at_3"] = precision.at_3;
    json["p_at_5"] = precision.at_5;
    json["points"] = data->num_points();
    json["seconds"] = seconds;
    json["hash_recall_top1"] = part(recall.top_1_found, recall.samples);
    json["hash_recall_top10"] = part(recall.top_10_found, recall.top_10);
    PrintLine(json.dump());
    return kExitOk;
  }
  PrintLine(absl::StrFormat("%s points in %.1f s\nP@1 %.4f   P@3 %.4f   P@5 %.4f",
                            WithThousands(data->num_points()), seconds, precision.at_1,
                            precision.at_3, precision.at_5));
  if (recall.samples > 0) {
    PrintLine(absl::StrFormat("Hash recall of the exact top-1 %.3f, top-10 %.3f (%s points)",
                              part(recall.top_1_found, recall.samples),
                              part(recall.top_10_found, recall.top_10),
                              WithThousands(recall.samples)));
  }
  return kExitOk;
}

}  // namespace

void AddEvalCommand(CliCommand app, Context& context) {
  const CliCommand command = app.AddSubcommand(
      "eval", "Measure a model's precision at 1, 3 and 5 by exact search",
      "Examples:\n"
      "  dslide eval --model-dir my-model --data test.txt\n"
      "  dslide eval --model-dir my-model --cluster 127.0.0.1:7000 --data test.txt -o json");
  auto options = std::make_shared<EvalOptions>();  // shared with the callback
  AddModelOptions(command, options->model);
  AddOption(command, "--data", options->data, "Points with labels").Required();
  command.OnChosen([&context, options] {
    context.run = [&context, options] { return RunEval(context.global, *options); };
  });
}

}  // namespace dslide::cli
