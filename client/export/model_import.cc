#include "client/export/model_import.h"

#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/export/row_fields.h"
#include "client/export/stored_table.h"
#include "core/base/status_macros.h"
#include "core/engine/rows/record_digest.h"

namespace dslide {
namespace {

// A number of an array at any byte.
template <typename T>
T NumberAt(absl::string_view bytes, int64_t index) {
  T number;
  std::memcpy(&number, bytes.data() + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return number;
}

}  // namespace

absl::StatusOr<ModelImport> ModelImport::Open(const std::string& path) {
  ModelImport import;
  ASSIGN_OR_RETURN(import.input_, SafetensorsInput::Open(path));
  ASSIGN_OR_RETURN(import.head_, DecodeExportHead(path, import.input_.metadata()));
  ASSIGN_OR_RETURN(import.texts_, ReadTexts(import.input_, import.head_.spec.num_labels()));
  return import;
}

absl::Status ModelImport::VisitTable(size_t number, RowVisitor visit) const {
  const TableSpec& table = head_.spec.tables[number];
  return IsRecordRole(table.role) ? VisitRecords(table, visit) : VisitFloats(table, visit);
}

absl::Status ModelImport::VisitFloats(const TableSpec& table, RowVisitor visit) const {
  ASSIGN_OR_RETURN(RowFields fields, RowFields::Create(table, head_.with_state));
  std::vector<absl::string_view> tensors;
  for (const TensorInfo& info : fields.tensors()) {
    ASSIGN_OR_RETURN(const absl::string_view bytes, input_.Get(info));
    tensors.push_back(bytes);
  }
  std::vector<absl::string_view> parts(tensors.size());
  for (int64_t row = 0; row < table.rows; ++row) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const size_t bytes = tensors[i].size() / static_cast<size_t>(table.rows);
      parts[i] = tensors[i].substr(static_cast<size_t>(row) * bytes, bytes);
    }
    const absl::Span<const char> record = fields.Join(parts);
    RETURN_IF_ERROR(visit(RowId(static_cast<uint32_t>(row)), {record.data(), record.size()}));
  }
  return absl::OkStatus();
}

absl::Status ModelImport::VisitRecords(const TableSpec& table, RowVisitor visit) const {
  ASSIGN_OR_RETURN(const absl::string_view offsets, input_.Get(RecordOffsetsTensor(table)));
  const int64_t total = NumberAt<int64_t>(offsets, table.rows);
  ASSIGN_OR_RETURN(const absl::string_view records, input_.Get(RecordsTensor(table, total)));
  int64_t begin = NumberAt<int64_t>(offsets, 0);
  for (int64_t row = 0; row < table.rows; ++row) {
    const int64_t end = NumberAt<int64_t>(offsets, row + 1);
    if (begin < 0 || end < begin || end > total) {
      return absl::DataLossError(absl::StrCat(input_.path(), ": table ", table.name,
                                              ": the offsets of row ", row, " do not ascend"));
    }
    if (end > begin) {
      RETURN_IF_ERROR(
          visit(RowId(static_cast<uint32_t>(row)),
                records.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin))));
    }
    begin = end;
  }
  return absl::OkStatus();
}

absl::Status ModelImport::Verify() const {
  const auto tables = static_cast<int64_t>(head_.spec.tables.size());
  ASSIGN_OR_RETURN(
      const absl::string_view digests,
      input_.Get({.name = kDigestsTensor, .type = TensorType::kI64, .shape = {tables}}));
  for (int64_t i = 0; i < tables; ++i) {
    uint64_t digest = 0;
    RETURN_IF_ERROR(VisitTable(static_cast<size_t>(i), [&](RowId row, absl::string_view record) {
      digest += RecordDigest(row, absl::MakeConstSpan(record.data(), record.size()));
      return absl::OkStatus();
    }));
    if (digest == NumberAt<uint64_t>(digests, i)) continue;
    return absl::DataLossError(absl::StrCat(
        input_.path(), ": the rows of table ", head_.spec.tables[static_cast<size_t>(i)].name,
        " are not those that were exported: copy all files of the export again"));
  }
  return absl::OkStatus();
}

absl::Status ModelImport::Load(ClusterClient& cluster, const std::string& name,
                               const std::function<void(const std::string&)>& say) const {
  ModelSpec spec = head_.spec;
  spec.name = name;
  ASSIGN_OR_RETURN(const std::vector<std::unique_ptr<ShardStream>> streams,
                   cluster.OpenStreams(spec, NewClientId()));
  int64_t next_step = 1;
  absl::Status loaded;
  for (size_t i = 0; loaded.ok() && i < spec.tables.size(); ++i) {
    const TableSpec& table = spec.tables[i];
    say(absl::StrCat("Importing table ", table.name, ", ", table.rows, " rows"));
    // Rows without state were never updated.
    const bool keeps_steps = head_.with_state || IsRecordRole(table.role);
    absl::StatusOr<RowLoader> loader = RowLoader::Create(
        cluster, spec, table, keeps_steps ? head_.applied_steps[i] : 0, streams, &next_step);
    loaded = loader.status();
    if (!loaded.ok()) break;
    loaded = VisitTable(
        i, [&](RowId row, absl::string_view record) { return loader->Add(row, record); });
    if (loaded.ok()) loaded = loader->Finish();
  }
  CloseStreams(streams);
  return loaded;
}

}  // namespace dslide
