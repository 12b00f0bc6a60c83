// dslide model

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/cluster/connect.h"
#include "client/cli/cluster/model_assets.h"
#include "client/cli/commands/cluster_action.h"
#include "client/cli/commands/command_line.h"
#include "client/cli/commands/command_model_transfer.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/terminal.h"
#include "client/cli/retire/command_model_retire.h"
#include "client/cpp/coordinator_client.h"
#include "core/base/status_macros.h"
#include "core/spec/model_spec_json.h"

namespace dslide::cli {
namespace {

// Flags of the whole group.
struct ClusterModelOptions {
  std::string cluster = "127.0.0.1:7000";
  std::string model;
  bool yes = false;
  bool dry_run = false;
  bool assets = false;
  Growth growth;
  bool force = false;
};

absl::StatusOr<int> ListModelSpecs(const GlobalOptions& global,
                                   const ClusterModelOptions& options) {
  ASSIGN_OR_RETURN(const auto client, ConnectToCoordinator(global, options.cluster));
  ASSIGN_OR_RETURN(const std::vector<ModelSpec> models, client->ListModels());
  if (global.json()) {
    nlohmann::ordered_json json = {{"models", nlohmann::ordered_json::array()}};
    for (const ModelSpec& model : models) {
      json["models"].push_back(nlohmann::ordered_json::parse(ModelSpecToJson(model)));
    }
    PrintLine(json.dump());
    return kExitOk;
  }
  if (models.empty()) {
    PrintLine("There is no model: dslide train --cluster makes one.");
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows;
  for (const ModelSpec& model : models) {
    for (const TableSpec& table : model.tables) {
      rows.push_back({model.name, table.name, WithThousands(table.rows), WithThousands(table.dim)});
    }
  }
  PrintLine(FormatTable({"model", "table", "rows", "dim"}, rows));
  return kExitOk;
}

// What is known of it beside its rows.
absl::StatusOr<int> DescribeAssets(const GlobalOptions& global, CoordinatorClient& client,
                                   const std::string& model) {
  ASSIGN_OR_RETURN(const FileList list, client.ListModelAssets(model));
  if (global.json()) {
    nlohmann::ordered_json json = {{"model", model},
                                   {"checksum", AssetChecksum(list.checksum)},
                                   {"assets", nlohmann::ordered_json::array()}};
    for (const ListedFile& file : list.files) {
      json["assets"].push_back(
          {{"name", file.path}, {"bytes", file.bytes}, {"crc32c", AssetChecksum(file.crc)}});
    }
    PrintLine(json.dump());
    return kExitOk;
  }
  if (list.files.empty()) {
    PrintLine(absl::StrCat("Model ", model, " has no names or weights of words in the cluster."));
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows;
  for (const ListedFile& file : list.files) {
    rows.push_back({file.path, WithThousands(file.bytes), AssetChecksum(file.crc)});
  }
  PrintLine(FormatTable({"asset", "bytes", "crc32c"}, rows));
  return kExitOk;
}

absl::StatusOr<int> DescribeModelSpec(const GlobalOptions& global,
                                      const ClusterModelOptions& options) {
  ASSIGN_OR_RETURN(const auto client, ConnectToCoordinator(global, options.cluster));
  if (options.assets) return DescribeAssets(global, *client, options.model);
  ASSIGN_OR_RETURN(const std::vector<ModelSpec> models, client->ListModels());
  for (const ModelSpec& model : models) {
    if (model.name != options.model) continue;
    const auto json = nlohmann::ordered_json::parse(ModelSpecToJson(model));
    PrintLine(json.dump(global.json() ? -1 : 2));
    return kExitOk;
  }
  return absl::NotFoundError(
      absl::StrCat("there is no model \"", options.model, "\": dslide model list"));
}

absl::StatusOr<int> DeleteModel(const GlobalOptions& global, const ClusterModelOptions& options) {
  ASSIGN_OR_RETURN(const auto client, ConnectToCoordinator(global, options.cluster));
  ASSIGN_OR_RETURN(const ClusterStatus status, client->GetClusterStatus());
  if (std::find(status.models.begin(), status.models.end(), options.model) == status.models.end()) {
    return absl::NotFoundError(
        absl::StrCat("there is no model \"", options.model, "\": dslide model list"));
  }
  std::vector<std::string> jobs;
  for (const JobStatus& job : status.jobs) {
    if (job.model != options.model) continue;
    // As the coordinator says it, also to a dry run.
    if (!options.force && !job.finished && job.trainers > 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("job ", job.job, " trains the model with ", job.trainers,
                       " trainers: dslide job cancel ", job.job, " first, or add --force"));
    }
    jobs.push_back(job.job);
  }
  if (!options.dry_run && !options.yes) {
    return absl::InvalidArgumentError(
        absl::StrCat("all rows of model ", options.model,
                     " would be gone, but for checkpoints: add --yes, or --dry-run to see what "
                     "goes with it"));
  }
  if (!options.dry_run) RETURN_IF_ERROR(client->UnregisterModel(options.model, options.force));
  if (global.json()) {
    PrintLine(nlohmann::ordered_json{
        {"model", options.model}, {"jobs", jobs}, {"deleted", !options.dry_run}}
                  .dump());
    return kExitOk;
  }
  PrintLine(absl::StrCat(
      "Model ", options.model, options.dry_run ? " would be" : " is", " deleted",
      jobs.empty() ? "." : absl::StrCat(", with its jobs ", absl::StrJoin(jobs, ", "), ".")));
  return kExitOk;
}

absl::StatusOr<int> GrowModel(const GlobalOptions& global, const ClusterModelOptions& options) {
  const Growth& growth = options.growth;
  if (growth.table.empty() == (growth.labels == 0) || growth.table.empty() != (growth.rows == 0)) {
    return absl::InvalidArgumentError(
        "say what grows: --table TABLE with --rows N, or --labels N alone");
  }
  ASSIGN_OR_RETURN(const auto client, ConnectToCoordinator(global, options.cluster));
  ASSIGN_OR_RETURN(const std::vector<ModelSpec> models, client->ListModels());
  int64_t before = 0;
  for (const ModelSpec& model : models) {
    if (model.name == options.model) before = SizeBefore(model, growth);
  }
  ASSIGN_OR_RETURN(const ModelSpec grown,
                   client->GrowModel(options.model, growth, options.dry_run));
  const int64_t after = SizeBefore(grown, growth);
  const bool by_table = growth.labels == 0;
  if (global.json()) {
    nlohmann::ordered_json json = {{"model", options.model}};
    if (by_table) json["table"] = growth.table;
    json[by_table ? "rows_before" : "labels_before"] = before;
    json[by_table ? "rows" : "labels"] = after;
    json["grown"] = !options.dry_run && after > before;
    PrintLine(json.dump());
    return kExitOk;
  }
  PrintLine(absl::StrCat(by_table ? absl::StrCat("Table ", growth.table, " of model ") : "Model ",
                         options.model,
                         after == before   ? " has "
                         : options.dry_run ? " would grow from "
                                           : " has grown from ",
                         after == before ? "" : WithThousands(before) + " to ",
                         WithThousands(after), by_table ? " rows." : " labels."));
  return kExitOk;
}

}  // namespace

void AddModelCommand(CliCommand app, Context& context) {
  const CliCommand group =
      app.AddSubcommand("model", "Show, grow, delete, export and import models, retire labels",
                        "Examples:\n"
                        "  dslide model list\n"
                        "  dslide model describe default\n"
                        "  dslide model grow default --labels 20000\n"
                        "  dslide model delete default --yes\n"
                        "  dslide model export --model-dir my-model "
                        "--output exported\n"
                        "  dslide model import exported --cluster "
                        "127.0.0.1:7000");
  group.RequireSubcommand();
  const auto options = std::make_shared<ClusterModelOptions>();  // shared with the callbacks
  AddClusterAction(group, context, options, "list", "List the models and their tables",
                   "  dslide model list --cluster 127.0.0.1:7000 -o json", ListModelSpecs);
  const CliCommand shown = AddClusterAction(
      group, context, options, "describe", "Show a model's spec, as --model reads it",
      "  dslide model describe default\n  dslide model describe default --assets",
      DescribeModelSpec);
  shown.Add("MODEL", options->model, "Its name").Required();
  shown.AddSwitch("--assets", options->assets,
                  "Show what the cluster knows beside the rows: names, weights of words, "
                  "vocabulary, tokenizer");
  const CliCommand gone = AddClusterAction(
      group, context, options, "delete", "Delete a model from all shards, and its jobs",
      "  dslide model delete default --dry-run\n  dslide model delete default --yes", DeleteModel);
  gone.Add("MODEL", options->model, "Its name").Required();
  gone.AddSwitch("--yes", options->yes, "Do it: the rows are gone");
  gone.AddSwitch("--dry-run", options->dry_run, "Only say what would go");
  gone.AddSwitch("--force", options->force, "Also while jobs train it; their trainers fail");
  const CliCommand grow = AddClusterAction(
      group, context, options, "grow",
      "Give a model more labels, or a table more rows, while it is trained and served",
      "  dslide model grow default --labels 20000 --dry-run\n"
      "  dslide model grow default --labels 20000\n"
      "  dslide model grow default --table input --rows 50000\n"
      "  dslide model grow default --table points --rows 200000\n"
      "      Room for so many points; it has no effect on those that are there.",
      GrowModel);
  grow.Add("MODEL", options->model, "Its name").Required();
  AddOption(grow, "--labels", options->growth.labels,
            "Labels that it has afterwards, in all tables that follow from them");
  AddOption(grow, "--table", options->growth.table,
            "Instead: a table of the role embedding, head or memory");
  AddOption(grow, "--rows", options->growth.rows, "With --table: rows that it has afterwards");
  grow.AddSwitch("--dry-run", options->dry_run, "Only ask the shards whether they have the memory");
  AddRetireCommand(group, context);
  AddModelTransferCommands(group, context);
}

}  // namespace dslide::cli
