// What an export says of itself: the keys of its metadata, and the tensors that are not of rows.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/export/safetensors_header.h"
#include "core/spec/model_spec.h"

namespace dslide {

inline constexpr int kExportFormat = 1;
// I64[tables]: of each table the sum over its rows of RecordDigest() of what import loads.
inline constexpr char kDigestsTensor[] = "dslide.digests";

struct ExportHead {
  ModelSpec spec;
  bool with_state = false;
  std::vector<int64_t> applied_steps;  // [tables] updates of each table, the most of any shard
};

TensorMetadata EncodeExportHead(const ExportHead& head);
// file: for errors. Errors: InvalidArgument for a file that dslide has not exported, or a newer
// format; DataLoss for metadata that contradict themselves.
absl::StatusOr<ExportHead> DecodeExportHead(const std::string& file,
                                            const TensorMetadata& metadata);

// Of a table of records: I64[rows + 1] where each row's bytes begin, and the bytes. A row that is
// absent has none.
TensorInfo RecordOffsetsTensor(const TableSpec& table);
TensorInfo RecordsTensor(const TableSpec& table, int64_t bytes);

}  // namespace dslide
