// The weights of the fusion as they are kept: u32 inputs, u32 0, u64 points of the memory, then
// f32[inputs] weights. Little-endian, without gaps.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dslide {

struct FusionWeights {
  int64_t points = 0;
  std::vector<float> weights;  // [kFusionInputs]
};

std::string EncodeFusion(const FusionWeights& fusion);
// Errors: InvalidArgument saying what is wrong with the bytes.
absl::StatusOr<FusionWeights> DecodeFusion(absl::string_view record);

}  // namespace dslide
