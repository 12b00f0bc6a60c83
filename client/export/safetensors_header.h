// The header of a file of the format safetensors: eight bytes of length, a JSON object that says
// where each tensor lies, then the tensors without gaps.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/export/tensor_info.h"

namespace dslide {

// A larger header is refused, as other readers do.
inline constexpr int64_t kMaxTensorHeaderBytes = 100'000'000;

using TensorMetadata = std::map<std::string, std::string>;

struct PlacedTensor {
  TensorInfo info;
  int64_t begin = 0;  // in the file
};

struct TensorHeader {
  std::vector<PlacedTensor> tensors;  // by place
  TensorMetadata metadata;
};

// Length and JSON, padded so that the first tensor lies at a multiple of 8.
std::string EncodeTensorHeader(const std::vector<TensorInfo>& tensors,
                               const TensorMetadata& metadata);

// file: its name in errors. start: its first bytes, the whole header at least, if it has one.
// file_bytes: its size. Types that are none of TensorType are refused.
// Errors: DataLoss for a header that is cut or garbled, tensors that overlap, leave gaps, lie
// outside of the file or have another size than their shape, and names that come twice.
absl::StatusOr<TensorHeader> ParseTensorHeader(const std::string& file, absl::string_view start,
                                               int64_t file_bytes);

}  // namespace dslide
