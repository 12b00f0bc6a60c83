// An exported model on its way into a cluster.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/cluster_client.h"
#include "client/export/export_format.h"
#include "client/export/model_texts.h"
#include "client/export/safetensors_input.h"
#include "core/spec/model_spec.h"

namespace dslide {

// Not thread-safe.
class ModelImport {
 public:
  // Reads everything but the rows. Errors: those of SafetensorsInput::Open(), DecodeExportHead()
  // and ReadTexts().
  static absl::StatusOr<ModelImport> Open(const std::string& path);

  const ModelSpec& spec() const { return head_.spec; }
  const ModelTexts& texts() const { return texts_; }
  bool with_state() const { return head_.with_state; }

  // Reads all rows and compares them with the export's digests. Errors: DataLoss naming the table.
  absl::Status Verify() const;

  // Loads all rows into the model `name` of the cluster, which was just created from spec().
  // Errors: those of the shards; the model is incomplete then.
  absl::Status Load(ClusterClient& cluster, const std::string& name,
                    const std::function<void(const std::string&)>& say) const;

 private:
  using RowVisitor = absl::FunctionRef<absl::Status(RowId, absl::string_view record)>;

  absl::Status VisitTable(size_t number, RowVisitor visit) const;
  absl::Status VisitFloats(const TableSpec& table, RowVisitor visit) const;
  absl::Status VisitRecords(const TableSpec& table, RowVisitor visit) const;

  SafetensorsInput input_;
  ExportHead head_;
  ModelTexts texts_;
};

}  // namespace dslide
