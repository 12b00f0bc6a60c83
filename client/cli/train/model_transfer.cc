#include "client/cli/train/model_transfer.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/console/exit_codes.h"
#include "client/cli/console/terminal.h"
#include "client/cli/model/model_dir.h"
#include "client/cli/model/model_dir_writer.h"
#include "client/cli/model/text_assets.h"
#include "client/cli/train/data_source.h"
#include "client/export/model_export.h"
#include "client/export/model_import.h"
#include "client/export/npz_output.h"
#include "client/export/onnx_output.h"
#include "client/export/safetensors_output.h"
#include "core/base/status_macros.h"
#include "core/base/units.h"
#include "core/base/version.h"

namespace dslide::cli {
namespace {

constexpr char kSafetensors[] = "safetensors";
constexpr char kNpz[] = "npz";
constexpr char kOnnx[] = "onnx";

ModelTexts TextsOfModel(const StoredModel& model) {
  return {.features = model.features,
          .labels = model.labels,
          .label_counts = model.label_counts,
          .vocabulary = model.vocabulary,
          .data_kind = model.origin.data_kind,
          .text_window = model.origin.text_window,
          .tokenizer = model.tokenizer};
}

StoredModel ModelOfImport(const ModelImport& import, const std::string& name, int64_t shards) {
  const ModelTexts& texts = import.texts();
  StoredModel model;
  model.origin.shards = shards;
  model.origin.seed = import.spec().seed;
  model.origin.version = Version();
  model.origin.revision = Revision();
  model.origin.data_kind = texts.data_kind;
  model.origin.text_window = texts.text_window;
  model.spec = import.spec();
  model.spec.name = name;
  model.features = texts.features;
  model.labels = texts.labels;
  model.label_counts = texts.label_counts;
  model.vocabulary = texts.vocabulary;
  model.tokenizer = texts.tokenizer;
  return model;
}

absl::Status CheckExportOptions(const ExportCommandOptions& options) {
  if (options.format == kSafetensors) return absl::OkStatus();
  const std::string suffix = "." + options.format;
  if (options.optimizer_state) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--optimizer-state: a ", suffix, " cannot be imported; use --format safetensors"));
  }
  if (!absl::EndsWith(options.output, suffix)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--output ", options.output, ": the name of such a file ends with ", suffix));
  }
  return absl::OkStatus();
}

OnnxOptions OnnxOptionsOf(const ExportCommandOptions& options) {
  return {.path = options.output, .overwrite = options.overwrite, .top_k = options.top_k};
}

absl::StatusOr<std::unique_ptr<TensorOutput>> OpenOutput(const ExportCommandOptions& options,
                                                         const ModelSpec& spec,
                                                         const ModelExport& plan) {
  if (options.format == kOnnx) return CreateOnnx(OnnxOptionsOf(options), spec, plan.tensors());
  if (options.format == kNpz) return CreateNpz(options.output, options.overwrite, plan.tensors());
  ASSIGN_OR_RETURN(const int64_t most, ParseByteSize(options.max_shard_size));
  return CreateSafetensors(
      {.path = options.output, .max_shard_bytes = most, .overwrite = options.overwrite},
      plan.tensors(), plan.Metadata());
}

void PrintExport(const GlobalOptions& global, const ExportCommandOptions& options,
                 const std::string& model, const ModelExport& plan) {
  if (global.json()) {
    PrintLine(nlohmann::ordered_json{{"model", model},
                                     {"format", options.format},
                                     {"output", options.output},
                                     {"tensors", plan.tensors().size()},
                                     {"bytes", plan.bytes()},
                                     {"exported", !options.dry_run}}
                  .dump());
    return;
  }
  PrintLine(absl::StrCat("Model ", model, options.dry_run ? " would be" : " is", " exported to ",
                         options.output, ": ", plan.tensors().size(), " tensors, ",
                         ReadableBytes(static_cast<double>(plan.bytes())), "."));
}

absl::Status CheckTarget(const ImportCommandOptions& options) {
  if (options.model_dir.empty() == options.cluster.empty()) {
    return absl::InvalidArgumentError(
        "say where the model is to come: --model-dir DIR, or --cluster HOST:PORT");
  }
  return absl::OkStatus();
}

absl::Status ImportIntoCluster(const GlobalOptions& global, const ImportCommandOptions& options,
                               const ModelImport& import, const ModelSpec& spec,
                               ProgressSink& progress) {
  ClientOptions client;
  ASSIGN_OR_RETURN(client.timeout, global.Timeout());
  client.job = "import";
  ASSIGN_OR_RETURN(const std::unique_ptr<ClusterSession> session,
                   ClusterSession::Connect(options.cluster, global.Channels(), std::move(client)));
  ASSIGN_OR_RETURN(const bool created, session->client().CreateModel(spec));
  if (!created) {
    return absl::FailedPreconditionError(
        absl::StrCat("the cluster has a model \"", spec.name,
                     "\" already: import under another --name, or delete it first (dslide model ",
                     "delete ", spec.name, ")"));
  }
  absl::Status loaded = import.Load(session->client(), spec.name,
                                    [&](const std::string& text) { progress.Say(text); });
  if (loaded.ok()) {
    loaded = GiveTexts(session->client().coordinator(), ModelOfImport(import, spec.name, 0));
  }
  if (loaded.ok()) return session->Close();
  return absl::Status(loaded.code(),
                      absl::StrCat(loaded.message(), "; model \"", spec.name,
                                   "\" of the cluster is not complete: dslide model delete ",
                                   spec.name, " --yes, then import again"));
}

absl::Status ImportIntoDirectory(const GlobalOptions& global, const ImportCommandOptions& options,
                                 const ModelImport& import, const std::string& name,
                                 ModelDirWriter& directory, ProgressSink& progress) {
  const StoredModel model = ModelOfImport(import, name, options.shards);
  RETURN_IF_ERROR(SaveModel(directory.staging(), model));
  ClientOptions client;
  ASSIGN_OR_RETURN(client.timeout, global.Timeout());
  client.job = "import";
  ASSIGN_OR_RETURN(const std::unique_ptr<ClusterSession> session,
                   ClusterSession::StartEmbedded({.shards = options.shards,
                                                  .parallelism = ThreadsOrAll(options.threads),
                                                  .data_dir = directory.staging()},
                                                 std::move(client)));
  RETURN_IF_ERROR(session->client().CreateModel(model.spec).status());
  RETURN_IF_ERROR(
      import.Load(session->client(), name, [&](const std::string& text) { progress.Say(text); }));
  RETURN_IF_ERROR(session->Close());
  return directory.Commit();
}

void PrintImport(const GlobalOptions& global, const ImportCommandOptions& options,
                 const ModelImport& import, const std::string& name) {
  const std::string where = options.cluster.empty() ? options.model_dir : options.cluster;
  if (global.json()) {
    PrintLine(nlohmann::ordered_json{{"model", name},
                                     {"input", options.input},
                                     {"into", where},
                                     {"optimizer_state", import.with_state()},
                                     {"imported", !options.dry_run}}
                  .dump());
    return;
  }
  PrintLine(absl::StrCat(
      "Model ", name, options.dry_run ? " would be" : " is", " imported into ", where,
      import.with_state() ? ", with the optimizer's state."
                          : ". Training it further begins without the optimizer's state."));
}

}  // namespace

absl::StatusOr<int> ExportModel(const GlobalOptions& global, const ExportCommandOptions& options) {
  RETURN_IF_ERROR(CheckExportOptions(options));
  const std::unique_ptr<ProgressSink> progress = MakeProgress(global.quiet);
  ModelOptions opened = options.model;
  opened.job = "export";
  opened.rows_only = true;
  ASSIGN_OR_RETURN(const std::unique_ptr<ModelSession> session, ModelSession::Open(global, opened));
  const StoredModel& model = session->model();
  if (options.format == kOnnx) {
    RETURN_IF_ERROR(CheckOnnxModel(model.spec, OnnxOptionsOf(options)));
  }
  ASSIGN_OR_RETURN(
      ModelExport plan,
      ModelExport::Plan(session->cluster(), model.spec, TextsOfModel(model),
                        {.optimizer_state = options.optimizer_state,
                         .records = options.format == kSafetensors,
                         .say = [&](const std::string& text) { progress->Say(text); }}));
  if (!options.dry_run) {
    ASSIGN_OR_RETURN(const std::unique_ptr<TensorOutput> output,
                     OpenOutput(options, model.spec, plan));
    RETURN_IF_ERROR(plan.Write(*output));
    RETURN_IF_ERROR(output->Commit());
  }
  PrintExport(global, options, model.spec.name, plan);
  RETURN_IF_ERROR(session->Close());
  return kExitOk;
}

absl::StatusOr<int> ImportModel(const GlobalOptions& global, const ImportCommandOptions& options) {
  RETURN_IF_ERROR(CheckTarget(options));
  const std::unique_ptr<ProgressSink> progress = MakeProgress(global.quiet);
  std::unique_ptr<ModelDirWriter> directory;  // before the model is read: it may be refused
  if (options.cluster.empty() && !options.dry_run) {
    ASSIGN_OR_RETURN(directory, ModelDirWriter::Open(options.model_dir,
                                                     options.overwrite ? ModelDirUse::kOverwrite
                                                                       : ModelDirUse::kNew));
  }
  ASSIGN_OR_RETURN(const ModelImport import, ModelImport::Open(options.input));
  progress->Say(absl::StrCat("Checking ", options.input));
  RETURN_IF_ERROR(import.Verify());
  ModelSpec spec = import.spec();
  if (!options.name.empty()) spec.name = options.name;
  RETURN_IF_ERROR(spec.Validate(/*sizes_known=*/true));
  if (!options.dry_run) {
    RETURN_IF_ERROR(
        options.cluster.empty()
            ? ImportIntoDirectory(global, options, import, spec.name, *directory, *progress)
            : ImportIntoCluster(global, options, import, spec, *progress));
  }
  PrintImport(global, options, import, spec.name);
  return kExitOk;
}

}  // namespace dslide::cli
