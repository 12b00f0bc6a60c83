#include "client/cli/commands/command_data_import.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/interrupt.h"
#include "client/cli/console/shell_word.h"
#include "client/cli/console/terminal.h"
#include "client/cli/source/remote_data.h"
#include "client/cli/train/data_source.h"
#include "client/cli/train/import_options.h"
#include "client/cli/train/model_resume.h"
#include "core/base/status_macros.h"

namespace dslide::cli {
namespace {

constexpr char kImportExamples[] = R"(Examples:
  dslide data import --csv articles.csv --text title --text abstract --labels tags \
      --label-separator ";" --test-fraction 0.1 --output articles
  dslide data import --jsonl questions.jsonl.gz --output questions
      Fields "text" and "labels"; labels are an array of strings, or a string.
  dslide data import --fasttext cooking.train --test cooking.valid --output cooking
  dslide data import --csv later.csv --model-dir my-model --output later
      For training my-model further: names that it knows keep their numbers.
  dslide data import --svmlight points.svm --output points
      label,label index:value ...; features keep their numbers as names.)";

struct ImportCommand {
  ImportFlags flags;
  std::vector<std::string> csv;
  std::vector<std::string> jsonl;
  std::vector<std::string> svmlight;
  std::vector<std::string> fasttext;
  int64_t threads = 0;
  // The model whose names keep their numbers; none without a directory and a cluster.
  std::string model_dir;
  std::string cluster;
  std::string name;
};

// Errors: those of ChooseModel(), FindInDirectory() and FindInCluster(); NotFound when the cluster
// has no such model, or nothing of its names.
absl::StatusOr<KnownModels> FindContinued(const GlobalOptions& global,
                                          const ImportCommand& command) {
  if (!command.model_dir.empty() && !command.cluster.empty()) {
    return absl::InvalidArgumentError(
        "--model-dir and --cluster exclude each other: whose names are to keep their numbers?");
  }
  if (!command.model_dir.empty()) return FindInDirectory(command.model_dir);
  ASSIGN_OR_RETURN(KnownModels known, FindInCluster(global, command.cluster, command.name));
  if (command.cluster.empty() || known.continued.has_value()) return known;
  ASSIGN_OR_RETURN(const std::string name, ChooseModel(known.specs, command.name));
  if (command.name.empty()) {
    ASSIGN_OR_RETURN(known, FindInCluster(global, command.cluster, name));
    if (known.continued.has_value()) return known;
  }
  return absl::NotFoundError(absl::StrCat("the cluster has no names of a model \"", name,
                                          "\": see dslide model list, and dslide model describe ",
                                          name, " --assets"));
}

// Takes the files of the one format that is named.
absl::Status ChooseFormat(const ImportCommand& command, ImportOptions* options) {
  const std::pair<ImportFormat, const std::vector<std::string>*> formats[] = {
      {ImportFormat::kCsv, &command.csv},
      {ImportFormat::kJsonLines, &command.jsonl},
      {ImportFormat::kSvmlight, &command.svmlight},
      {ImportFormat::kFastText, &command.fasttext}};
  for (const auto& [format, files] : formats) {
    if (files->empty()) continue;
    if (!options->files.empty()) {
      return absl::InvalidArgumentError(
          "--csv, --jsonl, --svmlight and --fasttext exclude each other: import one, then others "
          "into directories of their own");
    }
    options->source.format = format;
    options->files = *files;
  }
  if (!options->files.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "name the files: --csv, --jsonl, --svmlight or --fasttext FILE ...");
}

nlohmann::ordered_json PartToJson(const ImportPart& part) {
  const auto mean = [&](int64_t total) {
    return part.points == 0 ? 0.0 : static_cast<double>(total) / static_cast<double>(part.points);
  };
  nlohmann::ordered_json json;
  json["points"] = part.points;
  json["features_per_point"] = mean(part.features);
  json["labels_per_point"] = mean(part.labels);
  json["rows_without_labels"] = part.without_labels;
  json["rows_without_features"] = part.without_features;
  return json;
}

std::string ImportToJson(const std::string& directory, const ImportReport& report) {
  nlohmann::ordered_json json;
  json["directory"] = directory;
  json["rows"] = report.rows;
  json["features"] = report.features;
  json["labels"] = report.labels;
  json["new_features"] = report.new_features;
  json["new_labels"] = report.new_labels;
  json["features_left_out"] = report.features_left_out;
  json["labels_left_out"] = report.labels_left_out;
  json["train"] = PartToJson(report.train);
  json["test"] = PartToJson(report.test);
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// How the set is trained on: its flags behind --data and --eval.
std::string TrainingFlags(const ImportCommand& command, const KnownModels& known) {
  if (!known.continued.has_value()) return " --model-dir my-model";
  if (!command.model_dir.empty()) {
    return absl::StrCat(" --model-dir ", ShellWord(command.model_dir), " --resume --grow");
  }
  return absl::StrCat(" --cluster ", command.cluster, " --name ", known.continued->spec.name,
                      " --grow");
}

std::string ImportToText(const std::string& directory, const std::string& training_flags,
                         const ImportReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, part] : {std::pair("training", &report.train), {"test", &report.test}}) {
    const double points = std::max(1.0, static_cast<double>(part->points));
    rows.push_back({name, WithThousands(part->points),
                    absl::StrFormat("%.1f", static_cast<double>(part->features) / points),
                    absl::StrFormat("%.1f", static_cast<double>(part->labels) / points),
                    WithThousands(part->without_labels), WithThousands(part->without_features)});
  }
  return absl::StrCat(
      WithThousands(report.rows), " rows, ", WithThousands(report.features), " features (",
      WithThousands(report.features_left_out), " left out), ", WithThousands(report.labels),
      " labels (", WithThousands(report.labels_left_out), " left out)\n\n",
      FormatTable({"part", "points", "features each", "labels each", "rows without labels",
                   "without known words"},
                  rows),
      "\n\nTrain on it with:\n  dslide train --data ", directory, "/train.txt",
      report.test.points > 0 ? absl::StrCat(" --eval ", directory, "/test.txt") : "",
      training_flags);
}

absl::StatusOr<int> RunImport(const GlobalOptions& global, const ImportCommand& command) {
  ImportFlags flags = command.flags;
  RETURN_IF_ERROR(ChooseFormat(command, &flags.options));
  ASSIGN_OR_RETURN(const KnownModels known, FindContinued(global, command));
  if (known.continued.has_value()) flags.continued = &*known.continued;
  ASSIGN_OR_RETURN(ImportOptions options, ResolveImport(flags));
  options.parallelism = ThreadsOrAll(command.threads);
  const InterruptGuard interrupt;  // leaves no half-written files
  std::vector<LocalData> fetched;
  for (std::vector<std::string>* files : {&options.files, &options.test_files}) {
    for (std::string& file : *files) {
      ASSIGN_OR_RETURN(LocalData local, FetchData(file));
      file = local.path;
      fetched.push_back(std::move(local));
    }
  }
  options.stop_requested = &InterruptGuard::Interrupted;
  if (!global.quiet) options.progress = ImportProgress();
  const absl::StatusOr<ImportReport> report = ImportData(options);
  absl::Status imported = report.status();
  for (const LocalData& local : fetched) imported = ShownAs(local, imported);
  RETURN_IF_ERROR(imported);
  NoteSuspectedSeparator(*report);
  PrintLine(global.json()
                ? ImportToJson(options.output_dir, *report)
                : ImportToText(options.output_dir, TrainingFlags(command, known), *report));
  return kExitOk;
}

}  // namespace

void AddImportCommand(CliCommand data, Context& context) {
  const CliCommand command = data.AddSubcommand(
      "import", "Make a data set from files of your own: CSV, JSON lines, svmlight, fastText",
      kImportExamples);
  auto options = std::make_shared<ImportCommand>();  // shared with the callback
  command.Add("--csv", options->csv, "Files of comma-separated values").TypeName("FILE");
  command.Add("--jsonl", options->jsonl, "Files with a JSON object a line").TypeName("FILE");
  command.Add("--svmlight", options->svmlight, "Files with label,label index:value a line")
      .TypeName("FILE");
  command.Add("--fasttext", options->fasttext, "Files with __label__x text a line")
      .TypeName("FILE");
  ImportOptions& import = options->flags.options;
  command.Add("--test", import.test_files, "Files of the same form whose rows are for testing")
      .TypeName("FILE");
  AddOption(command, "--test-fraction", import.test_fraction,
            "Part of the rows that is for testing, chosen by what they say");
  AddOption(command, "--output", import.output_dir, "Directory to write to").Required();
  command.AddSwitch("--overwrite", import.overwrite, "Replace the data set in --output");
  AddSourceOptions(command, "--text,--text-column", "--labels,--label-column", options->flags);
  AddOption(command, "--label-prefix", import.source.label_prefix,
            "With --fasttext: words that begin with it are labels")
      .ShowDefault();
  AddVocabularyOptions(command, options->flags);
  AddOption(command, "--min-count", import.min_count,
            "Words on fewer training points are left out");
  AddOption(command, "--model-dir", options->model_dir,
            "Model that the data is for: its names keep their numbers, new ones get the next");
  AddOption(command, "--cluster", options->cluster,
            "Coordinator HOST:PORT of the cluster that has this model, instead of --model-dir");
  AddOption(command, "--name", options->name, "Name of the model in the cluster");
  AddOption(command, "--threads", options->threads, "0: all of the machine");
  RunWhenChosen(command, context, options, RunImport);
}

}  // namespace dslide::cli
