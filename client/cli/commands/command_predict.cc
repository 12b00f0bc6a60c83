// dslide predict

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands/command_line.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/terminal.h"
#include "client/cli/train/label_filter.h"
#include "client/cli/train/model_session.h"
#include "client/cli/train/prediction_text.h"
#include "client/components/ranking.h"
#include "client/trainer/trainer.h"
#include "core/base/status_macros.h"
#include "core/base/utf8.h"
#include "core/system/files/standard_streams.h"

namespace dslide::cli {
namespace {

constexpr int64_t kMaxK = 1024;
constexpr int64_t kBatch = ComponentSession::kBatch;

struct PredictOptions {
  ModelOptions model;
  std::string text;
  std::string data;
  int64_t k = 5;
  bool hashed = false;
  FilterOptions filter;
};

// The k best labels that `filter`, if there is one, leaves.
absl::StatusOr<std::vector<Prediction>> RankLeft(const PredictOptions& options,
                                                 ModelSession& session,
                                                 std::optional<LabelFilter>& filter,
                                                 SparseBatch samples,
                                                 absl::Span<const int64_t> points) {
  const auto rank = [&](SparseBatch batch, absl::Span<const int64_t> numbers, int64_t k) {
    return session.Rank(std::move(batch), numbers, k, options.hashed);
  };
  if (!filter.has_value()) return rank(std::move(samples), points, options.k);
  return filter->Rank(std::move(samples), points, options.k, rank);
}

// Errors: those of ResultStatus(): the rest need not be predicted.
absl::Status PrintOne(const GlobalOptions& global, const ModelSession& session,
                      const std::string& input, const Prediction& prediction,
                      const std::vector<std::string>& unknown) {
  if (global.json()) {
    nlohmann::ordered_json json;
    json["input"] = input;
    json["predictions"] = PredictionToJson(session.model(), prediction);
    if (!unknown.empty()) json["unknown_words"] = unknown;
    PrintLine(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return ResultStatus();
  }
  PrintLine(absl::StrCat(input, "\n", PredictionToText(session.model(), prediction)));
  if (!unknown.empty()) {
    PrintNote(absl::StrCat("(words the model does not know: ", absl::StrJoin(unknown, ", "), ")"));
  }
  return ResultStatus();
}

absl::Status PredictText(const GlobalOptions& global, const PredictOptions& options,
                         ModelSession& session, std::optional<LabelFilter>& filter,
                         const TextEncoder& encoder, const std::string& text) {
  ASSIGN_OR_RETURN(TextQuery query, encoder.Encode(text));
  ASSIGN_OR_RETURN(const std::vector<Prediction> predictions,
                   RankLeft(options, session, filter, std::move(query.batch), {int64_t{0}}));
  return PrintOne(global, session, text, predictions.front(), query.unknown);
}

absl::Status PredictFile(const GlobalOptions& global, const PredictOptions& options,
                         ModelSession& session) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> data, session.OpenDataset(options.data));
  std::optional<LabelFilter> filter;
  if (options.filter.any()) {
    ASSIGN_OR_RETURN(filter,
                     LabelFilter::Create(options.filter, session.model(), data->num_points()));
  }
  const bool named = !session.model().features.idf.empty();
  const std::vector<int64_t> all = AllPoints(data->num_points());
  for (size_t first = 0; first < all.size();) {
    SparseBatch samples;
    ASSIGN_OR_RETURN(
        const absl::Span<const int64_t> points,
        ReadSendable(*data, absl::MakeConstSpan(all).subspan(first, kBatch), &samples));
    first += points.size();
    ASSIGN_OR_RETURN(const std::vector<Prediction> predictions,
                     RankLeft(options, session, filter, samples, points));
    for (size_t i = 0; i < points.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const std::string words =
          named ? DescribeInput(session.model(), samples.FeaturesOf(at), samples.ValuesOf(at), 8)
                : "";
      const std::string input =
          absl::StrCat("point ", points[i], words.empty() ? "" : absl::StrCat(": ", words));
      RETURN_IF_ERROR(PrintOne(global, session, input, predictions[i], {}));
    }
  }
  return absl::OkStatus();
}

// --text, or else each line of stdin.
absl::Status PredictTexts(const GlobalOptions& global, const PredictOptions& options,
                          ModelSession& session) {
  ASSIGN_OR_RETURN(const TextEncoder encoder, EncoderOf(session.model()));
  std::optional<LabelFilter> filter;
  if (options.filter.any()) {
    ASSIGN_OR_RETURN(filter, LabelFilter::Create(options.filter, session.model(), 1));
  }
  if (!options.text.empty()) {
    return PredictText(global, options, session, filter, encoder, options.text);
  }
  if (IsTerminal(0)) PrintNote("Type a text and press Enter; Ctrl-D ends.");
  std::string line;
  for (bool first = true; std::getline(std::cin, line); first = false) {
    if (first) line = std::string(WithoutByteOrderMark(line));
    absl::StripAsciiWhitespace(&line);
    if (line.empty()) continue;
    absl::Status status = PredictText(global, options, session, filter, encoder, line);
    // A line that says nothing to the model is no reason to end.
    if (absl::IsInvalidArgument(status)) {
      PrintNote(status.message());
    } else if (!status.ok()) {
      return status;
    }
  }
  if (std::ferror(stdin) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("stdin cannot be read: ", std::strerror(errno), "; name --text or --data"));
}

absl::StatusOr<int> RunPredict(const GlobalOptions& global, const PredictOptions& options) {
  if (options.k < 1 || options.k > kMaxK) {
    return absl::InvalidArgumentError(
        absl::StrCat("-k ", options.k, ": must be in [1, ", kMaxK, "]"));
  }
  RETURN_IF_ERROR(CheckRecall(options.model.recall));
  if (options.model.recall > 0 && !options.hashed) {
    return absl::InvalidArgumentError(
        "--recall is of what hashing finds: add --hashed, or leave it out for all labels");
  }
  if (!options.text.empty() && !options.data.empty()) {
    return absl::InvalidArgumentError("--text and --data exclude each other");
  }
  if (!options.filter.filter.empty() && options.data.empty()) {
    return absl::InvalidArgumentError(
        "--filter names points of a file: give the file with --data, or use --exclude-inputs");
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelSession> session,
                   ModelSession::Open(global, options.model));
  if (!options.data.empty()) {
    RETURN_IF_ERROR(PredictFile(global, options, *session));
  } else {
    RETURN_IF_ERROR(PredictTexts(global, options, *session));
  }
  return kExitOk;
}

}  // namespace

void AddPredictCommand(CliCommand app, Context& context) {
  const CliCommand command = app.AddSubcommand(
      "predict", "Name the most likely labels of a text or of points",
      "Examples:\n"
      "  dslide predict --model-dir my-model --text \"a web server written in C\"\n"
      "  dslide predict --model-dir my-model --data test.txt -k 10 -o json\n"
      "  dslide predict --cluster 127.0.0.1:7000 --text \"a web server written in C\"\n"
      "  dslide predict --model-dir my-model < lines.txt\n"
      "      Without --text and --data, each line of stdin is a text.");
  auto options = std::make_shared<PredictOptions>();  // shared with the callback
  AddModelDataOptions(command, options->model);
  command.Add("--text", options->text, "A text; it is cut into words as the training data was");
  command.Add("--data", options->data, "Points; their labels are not used");
  command.Add("-k", options->k, "Labels to name, [1, 1024]");
  command.AddSwitch("--hashed", options->hashed,
                    "Score only the candidates that hashing finds, not every label");
  command.Add(
      "--recall", options->model.recall,
      "With --hashed: score so many rows that this share of the exact labels is found, e.g. "
      "0.95; the first 128 points are scored exactly, to learn how many. 0: as many as in "
      "training");
  AddFilterOptions(command, options->filter);
  RunWhenChosen(command, context, options, RunPredict);
}

}  // namespace dslide::cli
