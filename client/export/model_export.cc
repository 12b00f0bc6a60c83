#include "client/export/model_export.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/export/row_fields.h"
#include "client/export/stored_table.h"
#include "core/base/status_macros.h"
#include "core/engine/rows/record_digest.h"
#include "core/engine/rows/row_layout.h"

namespace dslide {
namespace {

constexpr size_t kWriteBytes = size_t{1} << 20;

// Collects the small parts of rows for a few large writes.
class TensorBuffer {
 public:
  TensorBuffer(TensorOutput& output, size_t tensor) : output_(output), tensor_(tensor) {}
  absl::Status Append(absl::string_view bytes) {
    buffer_.append(bytes.data(), bytes.size());
    return buffer_.size() >= kWriteBytes ? Flush() : absl::OkStatus();
  }
  absl::Status Flush() {
    RETURN_IF_ERROR(output_.Append(tensor_, buffer_));
    buffer_.clear();
    return absl::OkStatus();
  }

 private:
  TensorOutput& output_;
  const size_t tensor_;
  std::string buffer_;
};

template <typename T>
absl::string_view BytesOfArray(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace

absl::StatusOr<ModelExport> ModelExport::Plan(ClusterClient& cluster, const ModelSpec& spec,
                                              const ModelTexts& texts, ExportOptions options) {
  ModelExport plan(cluster, spec, std::move(options));
  ASSIGN_OR_RETURN(plan.head_.applied_steps, plan.AppliedSteps());
  for (const TableSpec& table : spec.tables) {
    plan.first_tensor_.push_back(plan.tensors_.size());
    plan.offsets_.emplace_back();
    if (IsRecordRole(table.role)) {
      if (plan.options_.records) RETURN_IF_ERROR(plan.PlanRecords(table));
      continue;
    }
    ASSIGN_OR_RETURN(const RowFields fields, RowFields::Create(table, plan.head_.with_state));
    plan.tensors_.insert(plan.tensors_.end(), fields.tensors().begin(), fields.tensors().end());
  }
  plan.texts_ = TensorsOf(texts);
  DescribeTexts(texts, &plan.texts_metadata_);
  for (const FilledTensor& tensor : plan.texts_) plan.tensors_.push_back(tensor.info);
  plan.tensors_.push_back({.name = kDigestsTensor,
                           .type = TensorType::kI64,
                           .shape = {static_cast<int64_t>(spec.tables.size())}});
  return plan;
}

absl::Status ModelExport::PlanRecords(const TableSpec& table) {
  options_.say(absl::StrCat("Looking at table ", table.name));
  std::vector<int64_t>& offsets = offsets_.back();
  offsets.assign(static_cast<size_t>(table.rows) + 1, 0);
  RETURN_IF_ERROR(
      VisitRows(*cluster_, head_.spec, table, /*sizes_only=*/true, [&](const VisitedRow& row) {
        offsets[row.row.value() + 1] = row.size;
        return absl::OkStatus();
      }));
  for (size_t i = 1; i < offsets.size(); ++i) offsets[i] += offsets[i - 1];
  tensors_.push_back(RecordOffsetsTensor(table));
  tensors_.push_back(RecordsTensor(table, offsets.back()));
  return absl::OkStatus();
}

TensorMetadata ModelExport::Metadata() const {
  TensorMetadata metadata = EncodeExportHead(head_);
  metadata.insert(texts_metadata_.begin(), texts_metadata_.end());
  return metadata;
}

int64_t ModelExport::bytes() const {
  int64_t total = 0;
  for (const TensorInfo& tensor : tensors_) total += tensor.bytes();
  return total;
}

absl::StatusOr<std::vector<int64_t>> ModelExport::AppliedSteps() const {
  ASSIGN_OR_RETURN(const ModelDescription found,
                   cluster_->DescribeModel(head_.spec.name, /*with_digests=*/false));
  std::vector<int64_t> applied(head_.spec.tables.size(), 0);
  for (const std::vector<TableStateReply>& shard : found.tables_by_shard) {
    if (shard.size() != applied.size()) return Changed();
    for (size_t i = 0; i < shard.size(); ++i) {
      applied[i] = std::max(applied[i], shard[i].applied_steps);
    }
  }
  return applied;
}

absl::Status ModelExport::Changed() const {
  return absl::FailedPreconditionError(
      absl::StrCat("model \"", head_.spec.name, "\" was changed while it was exported: export it ",
                   "when no job trains it (dslide job list)"));
}

absl::Status ModelExport::Write(TensorOutput& output) {
  std::vector<uint64_t> digests;
  for (size_t i = 0; i < head_.spec.tables.size(); ++i) {
    const TableSpec& table = head_.spec.tables[i];
    digests.push_back(0);
    if (IsRecordRole(table.role) && !options_.records) continue;
    options_.say(absl::StrCat("Exporting table ", table.name, ", ", table.rows, " rows"));
    ASSIGN_OR_RETURN(digests.back(), IsRecordRole(table.role)
                                         ? WriteRecords(i, first_tensor_[i], output)
                                         : WriteFloats(table, first_tensor_[i], output));
  }
  const size_t first_text = tensors_.size() - texts_.size() - 1;
  for (size_t i = 0; i < texts_.size(); ++i) {
    RETURN_IF_ERROR(output.Append(first_text + i, texts_[i].bytes));
  }
  RETURN_IF_ERROR(output.Append(tensors_.size() - 1, BytesOfArray(digests)));
  ASSIGN_OR_RETURN(const std::vector<int64_t> applied, AppliedSteps());
  return applied == head_.applied_steps ? absl::OkStatus() : Changed();
}

absl::StatusOr<uint64_t> ModelExport::WriteFloats(const TableSpec& table, size_t first,
                                                  TensorOutput& output) {
  ASSIGN_OR_RETURN(RowFields fields, RowFields::Create(table, head_.with_state));
  std::vector<TensorBuffer> buffers;
  for (size_t i = 0; i < fields.tensors().size(); ++i) buffers.emplace_back(output, first + i);
  std::vector<absl::string_view> parts;
  uint64_t digest = 0;
  int64_t next = 0;
  const auto write = [&](absl::string_view record, Step applied) -> absl::Status {
    ASSIGN_OR_RETURN(
        const uint64_t mine,
        fields.Split(RowId(static_cast<uint32_t>(next++)),
                     absl::MakeConstSpan(record.data(), record.size()), applied, &parts));
    digest += mine;
    for (size_t i = 0; i < parts.size(); ++i) RETURN_IF_ERROR(buffers[i].Append(parts[i]));
    return absl::OkStatus();
  };
  // Rows of retired labels are absent.
  const std::string zeros(static_cast<size_t>(RowLayout::Of(table).record_bytes), '\0');
  const auto write_absent = [&](int64_t end) -> absl::Status {
    while (next < end) RETURN_IF_ERROR(write(zeros, Step(0)));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(VisitRows(*cluster_, head_.spec, table, /*sizes_only=*/false,
                            [&](const VisitedRow& row) -> absl::Status {
                              RETURN_IF_ERROR(write_absent(row.row.value()));
                              return write(row.record, row.applied);
                            }));
  RETURN_IF_ERROR(write_absent(table.rows));
  for (TensorBuffer& buffer : buffers) RETURN_IF_ERROR(buffer.Flush());
  return digest;
}

absl::StatusOr<uint64_t> ModelExport::WriteRecords(size_t number, size_t first,
                                                   TensorOutput& output) {
  const std::vector<int64_t>& offsets = offsets_[number];
  RETURN_IF_ERROR(output.Append(first, BytesOfArray(offsets)));
  TensorBuffer buffer(output, first + 1);
  uint64_t digest = 0;
  int64_t expected = 0;
  RETURN_IF_ERROR(
      VisitRows(*cluster_, head_.spec, head_.spec.tables[number], /*sizes_only=*/false,
                [&](const VisitedRow& row) -> absl::Status {
                  const size_t at = row.row.value();
                  if (offsets[at] != expected || offsets[at + 1] - offsets[at] != row.size)
                    return Changed();
                  expected = offsets[at + 1];
                  digest += RecordDigest(row.row, absl::MakeConstSpan(row.record.data(), row.size));
                  return buffer.Append(row.record);
                }));
  if (expected != offsets.back()) return Changed();
  RETURN_IF_ERROR(buffer.Flush());
  return digest;
}

}  // namespace dslide
