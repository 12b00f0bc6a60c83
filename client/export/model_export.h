// A model on its way out of a cluster: what its tensors are, and their content.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/cluster_client.h"
#include "client/export/export_format.h"
#include "client/export/model_texts.h"
#include "client/export/tensor_output.h"
#include "core/spec/model_spec.h"

namespace dslide {

struct ExportOptions {
  // Everything that training goes on from, so that every bit of every row comes back.
  bool optimizer_state = false;
  // Tables of records mean something to dslide alone.
  bool records = true;
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

// Memory: 8 bytes a row of a table of records, a few MB beside that. Not thread-safe.
class ModelExport {
 public:
  // Looks at the sizes of all records. spec: of a model of the cluster, which outlives this.
  // Errors: those of the shards.
  static absl::StatusOr<ModelExport> Plan(ClusterClient& cluster, const ModelSpec& spec,
                                          const ModelTexts& texts, ExportOptions options);

  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  TensorMetadata Metadata() const;
  int64_t bytes() const;

  // Reads all rows and fills the tensors; does not commit.
  // Errors: those of the shards and of the output; FailedPrecondition when the model was changed
  // meanwhile.
  absl::Status Write(TensorOutput& output);

 private:
  ModelExport(ClusterClient& cluster, const ModelSpec& spec, ExportOptions options)
      : cluster_(&cluster), options_(std::move(options)) {
    head_.spec = spec;
    head_.with_state = options_.optimizer_state;
  }

  absl::Status PlanRecords(const TableSpec& table);
  absl::StatusOr<uint64_t> WriteFloats(const TableSpec& table, size_t first, TensorOutput& output);
  absl::StatusOr<uint64_t> WriteRecords(size_t number, size_t first, TensorOutput& output);
  absl::StatusOr<std::vector<int64_t>> AppliedSteps() const;
  absl::Status Changed() const;

  ClusterClient* cluster_;
  ExportOptions options_;
  ExportHead head_;
  std::vector<FilledTensor> texts_;
  TensorMetadata texts_metadata_;
  std::vector<TensorInfo> tensors_;            // of the tables, then texts, then digests
  std::vector<size_t> first_tensor_;           // [tables]
  std::vector<std::vector<int64_t>> offsets_;  // [tables][rows + 1] of records, else empty
};

}  // namespace dslide
