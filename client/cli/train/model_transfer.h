// Models between directories, clusters and files that other programs read.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/console/global_options.h"
#include "client/cli/train/model_session.h"

namespace dslide::cli {

struct ExportCommandOptions {
  ModelOptions model;
  std::string format = "safetensors";  // or "npz", "onnx"
  std::string output;
  std::string max_shard_size = "5GB";
  int64_t top_k = 5;  // of an ONNX graph
  bool optimizer_state = false;
  bool overwrite = false;
  bool dry_run = false;
};

struct ImportCommandOptions {
  std::string input;
  std::string model_dir;
  std::string cluster;
  std::string name;  // of the model; "": as it was
  int64_t shards = 1;
  int64_t threads = 0;
  bool overwrite = false;
  bool dry_run = false;
};

// Both return the exit code. Errors: those of ModelSession, ModelExport and ModelImport;
// InvalidArgument for options that do not go together.
absl::StatusOr<int> ExportModel(const GlobalOptions& global, const ExportCommandOptions& options);
absl::StatusOr<int> ImportModel(const GlobalOptions& global, const ImportCommandOptions& options);

}  // namespace dslide::cli
