// dslide data gen | info, and what command_data_debian.h and command_data_import.h add

#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands/command_data_debian.h"
#include "client/cli/commands/command_data_import.h"
#include "client/cli/commands/command_line.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/shell_word.h"
#include "client/cli/console/terminal.h"
#include "client/cli/serve/command_data_serve.h"
#include "client/cli/train/data_source.h"
#include "core/base/status_macros.h"
#include "core/engine/data/dataset_info.h"
#include "core/engine/data/sources/synthetic.h"

namespace dslide::cli {
namespace {

// --- gen
// ------------------------------------------------------------------------------------------

struct GenOptions {
  std::string output;
  SyntheticOptions synthetic;
  int64_t threads = 0;
};

absl::StatusOr<int> RunGen(const GlobalOptions& global, GenOptions options) {
  options.synthetic.parallelism = ThreadsOrAll(options.threads);
  RETURN_IF_ERROR(GenerateSynthetic(options.synthetic, options.output));
  if (global.json()) {
    nlohmann::ordered_json json;
    json["path"] = options.output;
    json["points"] = options.synthetic.points;
    json["features"] = options.synthetic.features;
    json["labels"] = options.synthetic.labels;
    json["seed"] = options.synthetic.seed;
    PrintLine(json.dump());
  } else {
    PrintLine(absl::StrCat("Wrote ", WithThousands(options.synthetic.points), " points to ",
                           options.output, ". Train on it with:\n  dslide train --data ",
                           ShellWord(options.output)));
  }
  return kExitOk;
}

void AddGen(CliCommand data, Context& context) {
  const CliCommand command = data.AddSubcommand(
      "gen", "Generate data of any width that can be learnt",
      "Examples:\n"
      "  dslide data gen --output train.txt --points 50000 --features 135909 --labels 670091\n"
      "  dslide data gen --output test.txt --points 5000 --first-point 50000 \\\n"
      "      --features 135909 --labels 670091\n"
      "      A test part of the same task: the same shape and seed, later points.");
  auto options = std::make_shared<GenOptions>();  // shared with the callback
  SyntheticOptions& synthetic = options->synthetic;
  command.Add("--output", options->output, "File to write").Required();
  AddOption(command, "--points", synthetic.points, "Points");
  AddOption(command, "--features", synthetic.features, "Features");
  AddOption(command, "--labels", synthetic.labels, "Labels");
  AddOption(command, "--features-per-point", synthetic.features_per_point, "Mean, distinct");
  AddOption(command, "--labels-per-point", synthetic.labels_per_point, "Mean, distinct");
  AddOption(command, "--seed", synthetic.seed, "Seed of the task and of the points");
  AddOption(command, "--first-point", synthetic.first_point, "First point of the endless sequence");
  AddThreads(command, options->threads, "0: all of the machine");
  RunWhenChosen(command, context, options, RunGen);
}

// --- info
// -----------------------------------------------------------------------------------------

struct InfoOptions {
  std::string file;
  DataOptions data;
  int64_t threads = 0;
};

absl::StatusOr<int> RunInfo(const GlobalOptions& global, const InfoOptions& options) {
  const Parallelism parallelism = ThreadsOrAll(options.threads);
  DataOptions source = options.data;
  ASSIGN_OR_RETURN(source.served, ServedDataOf(global));
  ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> data,
                   OpenData(options.file, source, nullptr, parallelism));
  ASSIGN_OR_RETURN(const DatasetInfo info, DescribeDataset(*data, parallelism));
  ASSIGN_OR_RETURN(const PrecisionAtK baseline, MostFrequentBaseline(*data, *data, parallelism));
  if (global.json()) {
    nlohmann::ordered_json json;
    json["path"] = options.file;
    json["points"] = info.points;
    json["features"] = info.features;
    json["labels"] = info.labels;
    json["features_used"] = info.features_used;
    json["labels_used"] = info.labels_used;
    json["features_per_point"] = info.features_per_point;
    json["labels_per_point"] = info.labels_per_point;
    json["max_features_per_point"] = info.max_features_per_point;
    json["max_labels_per_point"] = info.max_labels_per_point;
    json["points_without_labels"] = info.points_without_labels;
    json["points_without_features"] = info.points_without_features;
    json["most_frequent_p_at_1"] = baseline.at_1;
    json["most_frequent_p_at_3"] = baseline.at_3;
    json["most_frequent_p_at_5"] = baseline.at_5;
    PrintLine(json.dump());
    return kExitOk;
  }
  const auto mean = [](double value) { return absl::StrFormat("%.1f", value); };
  PrintLine(
      FormatTable({options.file, "", ""},
                  {{"points", WithThousands(info.points), ""},
                   {"features", WithThousands(info.features),
                    absl::StrCat(WithThousands(info.features_used), " occur")},
                   {"labels", WithThousands(info.labels),
                    absl::StrCat(WithThousands(info.labels_used), " occur")},
                   {"features per point", mean(info.features_per_point),
                    absl::StrCat("at most ", WithThousands(info.max_features_per_point))},
                   {"labels per point", mean(info.labels_per_point),
                    absl::StrCat("at most ", WithThousands(info.max_labels_per_point))},
                   {"points without labels", WithThousands(info.points_without_labels), ""},
                   {"points without features", WithThousands(info.points_without_features), ""}}));
  PrintLine(
      absl::StrFormat("\nAlways guessing the most frequent labels: P@1 %.4f   P@3 %.4f   P@5 %.4f",
                      baseline.at_1, baseline.at_3, baseline.at_5));
  return kExitOk;
}

void AddInfo(CliCommand data, Context& context) {
  const CliCommand command = data.AddSubcommand(
      "info", "Check a file, describe it, and say what guessing its most frequent labels gives",
      "Examples:\n"
      "  dslide data info train.txt.xz\n"
      "  dslide data info --text book.txt -o json");
  auto options = std::make_shared<InfoOptions>();  // shared with the callback
  command.Add("FILE", options->file, "Sparse text, or plain text with --text").Required();
  AddDataOptions(command, options->data);
  AddThreads(command, options->threads, "0: all of the machine");
  RunWhenChosen(command, context, options, RunInfo);
}

}  // namespace

void AddDataCommand(CliCommand app, Context& context) {
  const CliCommand command =
      app.AddSubcommand("data", "Make and describe data sets",
                        "Examples:\n"
                        "  dslide data import --csv articles.csv --output articles\n"
                        "  dslide data debian-packages --output data/debian\n"
                        "  dslide data info data/debian/train.txt\n"
                        "  dslide data gen --output wide.txt --labels 670091 --features 135909\n"
                        "  dslide data serve --data train.txt");
  AddImportCommand(command, context);
  AddGen(command, context);
  AddDebianCommands(command, context);
  AddInfo(command, context);
  AddDataServeCommand(command, context);
}

}  // namespace dslide::cli
