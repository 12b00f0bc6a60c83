// A network as an ONNX graph: from features to the best labels.
//
// Inputs: `feature_ids` i64[batch, features] and `values` f32[batch, features], as the data has
// them; a shorter point is filled up with any id and the value 0. Outputs: `scores` f32[batch, k]
// and `labels` i64[batch, k], by falling score. The graph transforms the values as the model's data
// is.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/export/tensor_info.h"
#include "client/export/tensor_output.h"
#include "core/spec/model_spec.h"

namespace dslide {

struct OnnxOptions {
  std::string path;
  bool overwrite = false;
  int64_t top_k = 5;  // [1, labels]
};

// Whether a model is a network that a graph can be. Errors: InvalidArgument naming the reason.
absl::Status CheckOnnxModel(const ModelSpec& spec, const OnnxOptions& options);

// tensors: those of a ModelExport without records and state; kept in memory until Commit().
// Errors: those of CheckOnnxModel(); InvalidArgument when the path is taken, or for weights of 2 GB
// and more, which the format cannot hold.
absl::StatusOr<std::unique_ptr<TensorOutput>> CreateOnnx(const OnnxOptions& options,
                                                         const ModelSpec& spec,
                                                         const std::vector<TensorInfo>& tensors);

}  // namespace dslide
