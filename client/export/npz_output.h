// A model as .npz: a zip of .npy arrays, not compressed, for numpy.load().

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/export/tensor_info.h"
#include "client/export/tensor_output.h"

namespace dslide {

// Arrays in bf16, which numpy does not know, become f32: Append() still takes bf16.
// Errors: InvalidArgument when the path is taken, or for more than 65,535 tensors;
// ResourceExhausted when there is no room for all of it; system errors.
absl::StatusOr<std::unique_ptr<TensorOutput>> CreateNpz(const std::string& path, bool overwrite,
                                                        const std::vector<TensorInfo>& tensors);

}  // namespace dslide
