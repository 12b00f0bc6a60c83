#include "client/cli/commands/command_model_transfer.h"

#include <memory>

#include "client/cli/train/model_transfer.h"

namespace dslide::cli {
namespace {

constexpr char kExportExamples[] = R"(Examples:
  dslide model export --model-dir my-model --output exported
      A folder with model.safetensors, as other programs read it and dslide model import does.
  dslide model export --cluster 127.0.0.1:7000 --name default --output exported --optimizer-state
      With everything that training goes on from.
  dslide model export --model-dir my-model --format npz --output model.npz
      For numpy.load().)";

constexpr char kImportExamples[] = R"(Examples:
  dslide model import exported --model-dir my-model
  dslide model import exported --cluster 127.0.0.1:7000 --name second)";

void AddExport(CliCommand group, Context& context) {
  const auto options = std::make_shared<ExportCommandOptions>();  // shared with the callback
  const CliCommand command = group.AddSubcommand(
      "export", "Write a model as tensors that other programs read", kExportExamples);
  AddModelOptions(command, options->model);
  AddOption(command, "--format", options->format, "safetensors, npz or onnx")
      .OneOf({"safetensors", "npz", "onnx"})
      .ShowDefault();
  AddOption(command, "--output", options->output,
            "What is written: a new folder, or a file that ends with .safetensors, .npz or .onnx")
      .Required()
      .TypeName("PATH");
  AddOption(command, "--max-shard-size", options->max_shard_size,
            "A folder of safetensors begins a new file where a tensor would pass this")
      .ShowDefault();
  AddOption(command, "--top-k", options->top_k, "Labels that an ONNX graph answers")
      .Positive()
      .ShowDefault();
  command.AddSwitch("--optimizer-state", options->optimizer_state,
                    "Also what training goes on from: every bit of every row comes back");
  command.AddSwitch("--overwrite", options->overwrite, "Replace an export that is there");
  command.AddSwitch("--dry-run", options->dry_run, "Only say how large it would be");
  RunWhenChosen(command, context, options, ExportModel);
}

void AddImport(CliCommand group, Context& context) {
  const auto options = std::make_shared<ImportCommandOptions>();  // shared with the callback
  const CliCommand command = group.AddSubcommand(
      "import", "Make a model of what dslide model export wrote", kImportExamples);
  command.Add("PATH", options->input, "A folder, a .safetensors file or the index of several")
      .Required();
  AddOption(command, "--model-dir", options->model_dir, "New directory for the model");
  AddOption(command, "--cluster", options->cluster,
            "Coordinator HOST:PORT of the cluster that gets the model");
  AddOption(command, "--name", options->name, "Name of the new model; as it was if not given");
  AddOption(command, "--shards", options->shards, "Shards of a model directory")
      .Range<int64_t>(1, 1024)
      .ShowDefault();
  AddOption(command, "--threads", options->threads, "Threads; 0: all of the machine");
  command.AddSwitch("--overwrite", options->overwrite, "Replace the model in the directory");
  command.AddSwitch("--dry-run", options->dry_run, "Only check what would be imported");
  RunWhenChosen(command, context, options, ImportModel);
}

}  // namespace

void AddModelTransferCommands(CliCommand group, Context& context) {
  AddExport(group, context);
  AddImport(group, context);
}

}  // namespace dslide::cli
