// dslide append

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands/command_line.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/interrupt.h"
#include "client/cli/console/terminal.h"
#include "client/cli/train/model_session.h"
#include "client/components/point_stream.h"
#include "client/trainer/batch_preparer.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/engine/data/point_times.h"

namespace dslide::cli {
namespace {

constexpr char kAppendExamples[] =
    R"(The memory of a model keeps the newest points: as many as its table has rows, and with
--keep-age none that is older than that. Points get numbers, on from the largest in the memory. A
command that was cut off is repeated with the --first-point that it named at its start: what had
arrived is not added twice.

Examples:
  dslide append --cluster 127.0.0.1:7000 --model-dir my-model --data new.txt
      Neighbours and centroids know the new points; label trees and network stay as they are.
  dslide append --cluster 127.0.0.1:7000 --model-dir my-model --data new.txt --solve
      Afterwards the rows of the label trees are solved again.
  dslide append --cluster 127.0.0.1:7000 --data new.csv --grow --solve
      Labels and words that the model does not have get the next numbers, and join its trees.
  dslide append --model-dir my-model --data new.txt --times days.txt --keep-age 90
      days.txt has a whole number for each point; points that are more than 90 older than the
      newest of them are forgotten. Those that came without --times have the time 0.)";

struct AppendOptions {
  ModelOptions model;
  std::string data;
  std::string times;
  std::optional<int64_t> keep_age;
  std::optional<int64_t> first_point;
  bool grow = false;
  bool solve = false;
};

struct AppendResult {
  int64_t points = 0;  // sent
  int64_t first = 0;
  int64_t last = 0;
  uint32_t expire_before = 0;
  int64_t before = 0;  // in the memory
  int64_t after = 0;
  int64_t room = 0;  // points that it keeps
  int64_t new_labels = 0;
  std::optional<int64_t> entries;  // of the rows that were solved
  double seconds = 0;
};

absl::Status CheckAppendOptions(const AppendOptions& options) {
  if (options.keep_age.has_value() && options.times.empty()) {
    return absl::InvalidArgumentError(
        "--keep-age needs the times of the points: name their file with --times FILE");
  }
  if (options.keep_age.value_or(0) < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--keep-age ", *options.keep_age, ": must be at least 0"));
  }
  if (options.first_point.value_or(0) < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--first-point ", *options.first_point, ": must be at least 0"));
  }
  return absl::OkStatus();
}

// The smallest time that is kept; 0: all are.
uint32_t OldestKept(const std::vector<uint32_t>& times, std::optional<int64_t> keep_age) {
  if (!keep_age.has_value()) return 0;
  const int64_t newest = *std::max_element(times.begin(), times.end());
  return static_cast<uint32_t>(std::max<int64_t>(newest - *keep_age, 0));
}

std::string RepeatWith(int64_t first) {
  return absl::StrCat("repeat the command with --first-point ", first);
}

std::string AppendResultToJson(const AppendResult& result) {
  nlohmann::ordered_json json;
  json["points"] = result.points;
  json["first_point"] = result.first;
  json["last_point"] = result.last;
  json["expire_before"] = result.expire_before;
  json["memory_points_before"] = result.before;
  json["memory_points"] = result.after;
  json["new_labels"] = result.new_labels;
  json["linear_entries"] =
      result.entries.has_value() ? nlohmann::ordered_json(*result.entries) : nullptr;
  json["seconds"] = result.seconds;
  return json.dump();
}

std::string AppendResultToText(const AppendResult& result) {
  std::string text = absl::StrFormat(
      "%s points sent in %.1f s, numbers %d to %d\nThe memory has %s points, it had %s",
      WithThousands(result.points), result.seconds, result.first, result.last,
      WithThousands(result.after), WithThousands(result.before));
  if (result.after == result.room && result.before + result.points > result.room) {
    absl::StrAppend(&text, ", and room for no more: newer ones take the place of older ones");
  }
  if (result.new_labels > 0) {
    absl::StrAppend(&text, "\nThe model has ", WithThousands(result.new_labels), " more labels");
  }
  if (result.entries.has_value()) {
    absl::StrAppend(&text, "\nRows were solved again: ", WithThousands(*result.entries),
                    " weights");
  }
  return text;
}

// The points and their times, all of which a memory takes: they are looked at before the model
// grows by them, and before the first is sent.
absl::StatusOr<std::unique_ptr<Dataset>> OpenChecked(const AppendOptions& options,
                                                     ModelSession& session,
                                                     std::vector<uint32_t>* times) {
  PointStream stream = session.components()->OpenPointStream(&InterruptGuard::Interrupted);
  ASSIGN_OR_RETURN(const AppendPointsReply before, stream.Count());
  const auto check = [&](const Dataset& data, const StoredModel& model) -> absl::Status {
    RETURN_IF_ERROR(CheckHasLabels(data));
    if (!options.times.empty()) {
      ASSIGN_OR_RETURN(*times, ReadPointTimes(options.times, data.num_points()));
    }
    return CheckPoints(data, options.first_point.value_or(before.next), model.spec,
                       ToValueTransform(model.spec.training.transform), model.features.idf,
                       &InterruptGuard::Interrupted);
  };
  if (options.grow) return session.GrowFor(options.model, options.data, check);
  ASSIGN_OR_RETURN(std::unique_ptr<Dataset> data, session.OpenPoints(options.data));
  RETURN_IF_ERROR(check(*data, session.model()));
  return data;
}

absl::StatusOr<AppendResult> AppendData(const AppendOptions& options, ModelSession& session) {
  if (session.components() == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("model \"", session.model().spec.name,
                     "\" has no memory that points could be added to: train one without a spec, or "
                     "with a table of the role memory"));
  }
  if (options.solve && session.model().spec.FindRole(TableRole::kLabelTrees) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--solve: model \"", session.model().spec.name,
                     "\" has no label trees, so there is nothing to solve: leave it out"));
  }
  const int64_t labels_before = session.model().spec.num_labels();
  std::vector<uint32_t> times;
  ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> data, OpenChecked(options, session, &times));
  PointStream stream = session.components()->OpenPointStream(&InterruptGuard::Interrupted);
  ASSIGN_OR_RETURN(const AppendPointsReply before, stream.Count());
  AppendResult result;
  result.points = data->num_points();
  result.first = options.first_point.value_or(before.next);
  result.last = result.first + result.points - 1;
  result.expire_before = OldestKept(times, options.keep_age);
  result.before = before.points;
  result.room = session.model().spec.FindRole(TableRole::kMemory)->rows;
  result.new_labels = session.model().spec.num_labels() - labels_before;
  PrintNote(absl::StrCat("dslide append: points ", result.first, " to ", result.last,
                         "; should it be cut off, ", RepeatWith(result.first)));
  RETURN_IF_ERROR(stream.Append(*data, result.first,
                                {.of_points = times, .expire_before = result.expire_before}));
  const bool has_trees = session.model().spec.FindRole(TableRole::kLabelTrees) != nullptr;
  if (has_trees) RETURN_IF_ERROR(stream.Refresh());
  if (options.solve) {
    ASSIGN_OR_RETURN(result.entries, stream.SolveTrees());
  }
  ASSIGN_OR_RETURN(const AppendPointsReply after, stream.Count());
  result.after = after.points;
  return result;
}

absl::StatusOr<int> RunAppend(const GlobalOptions& global, const AppendOptions& options) {
  RETURN_IF_ERROR(CheckAppendOptions(options));
  const InterruptGuard interrupt;
  const absl::Duration start = SteadyClock().Now();
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelSession> session,
                   ModelSession::Open(global, options.model));
  ASSIGN_OR_RETURN(AppendResult result, AppendData(options, *session));
  RETURN_IF_ERROR(session->Close());
  result.seconds = absl::ToDoubleSeconds(SteadyClock().Now() - start);
  PrintLine(global.json() ? AppendResultToJson(result) : AppendResultToText(result));
  return kExitOk;
}

}  // namespace

void AddAppendCommand(CliCommand app, Context& context) {
  const CliCommand command = app.AddSubcommand(
      "append", "Add new points to a model's memory, and forget old ones", kAppendExamples);
  auto options = std::make_shared<AppendOptions>();  // shared with the callback
  options->model.job = "append";
  options->model.use = ModelUse::kChange;
  AddModelDataOptions(command, options->model);
  AddOption(command, "--data", options->data, "Points with labels, in the order in which they came")
      .Required();
  AddOption(command, "--times", options->times,
            "File with a line for each point, its time: a whole number in any unit");
  AddOption(command, "--keep-age", options->keep_age,
            "With --times: forget points that are by more than this older than the newest of them");
  AddOption(command, "--first-point", options->first_point,
            "Number of the first point; without it the next one of the memory");
  command.AddSwitch("--grow", options->grow,
                    "Give the model the rows for labels and features that it does not have");
  command.AddSwitch("--solve", options->solve,
                    "Solve the rows of the label trees again, from the points that are there then");
  RunWhenChosen(command, context, options, RunAppend);
}

}  // namespace dslide::cli
