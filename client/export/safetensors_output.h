// A model as safetensors: one file, or a folder whose files lie as Hugging Face's tools expect
// them: `model.safetensors`, or `model-00001-of-0000N.safetensors` beside
// `model.safetensors.index.json`.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/export/safetensors_header.h"
#include "client/export/tensor_output.h"

namespace dslide {

inline constexpr char kTensorFileName[] = "model.safetensors";
inline constexpr char kTensorIndexName[] = "model.safetensors.index.json";
inline constexpr char kTensorSuffix[] = ".safetensors";

struct SafetensorsOptions {
  // Ends with ".safetensors": one file. Else a folder.
  std::string path;
  // A folder begins a new file where a tensor would pass this; a tensor is never cut in two.
  int64_t max_shard_bytes = 0;
  bool overwrite = false;
};

// The tensors of each file, by number: in their order, each file as full as may be.
std::vector<std::vector<size_t>> DealTensors(const std::vector<TensorInfo>& tensors,
                                             int64_t max_shard_bytes);

// Errors: InvalidArgument when the path is taken; ResourceExhausted when there is no room for all
// of it; system errors.
absl::StatusOr<std::unique_ptr<TensorOutput>> CreateSafetensors(
    const SafetensorsOptions& options, const std::vector<TensorInfo>& tensors,
    const TensorMetadata& metadata);

}  // namespace dslide
