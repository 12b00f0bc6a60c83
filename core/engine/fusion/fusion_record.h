// The weights of the fusion as they are kept: u32 inputs, u32 candidates of its preselection, u64
// points of the memory, f32[inputs] weights, and where there are candidates f32[inputs] weights of
// the preselection. Little-endian, without gaps.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/engine/fusion/preselection.h"

namespace dslide {

struct FusionWeights {
  int64_t points = 0;
  std::vector<float> weights = {};  // [kFusionInputs]
  Preselection preselection = {};
};

std::string EncodeFusion(const FusionWeights& fusion);
// Errors: InvalidArgument saying what is wrong with the bytes.
absl::StatusOr<FusionWeights> DecodeFusion(absl::string_view record);

}  // namespace dslide
