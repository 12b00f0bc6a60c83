#include "core/engine/fusion/fusion_record.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/byte_fields.h"
#include "core/engine/fusion/fusion_inputs.h"

namespace dslide {

std::string EncodeFusion(const FusionWeights& fusion) {
  ByteWriter record;
  record.Number(static_cast<uint32_t>(fusion.weights.size()));
  record.Number(uint32_t{0});
  record.Number(static_cast<uint64_t>(fusion.points));
  for (const float weight : fusion.weights) record.Number(weight);
  return std::move(record).Take();
}

absl::StatusOr<FusionWeights> DecodeFusion(absl::string_view record) {
  ByteReader reader(record);
  const auto inputs = reader.Number<uint32_t>();
  reader.Number<uint32_t>();
  FusionWeights fusion;
  fusion.points = static_cast<int64_t>(reader.Number<uint64_t>());
  if (!reader.ok() || inputs > kFusionInputs) {
    return absl::InvalidArgumentError(absl::StrCat("a fusion of ", inputs, " inputs in ",
                                                   record.size(), " bytes, this version has ",
                                                   kFusionInputs));
  }
  for (uint32_t i = 0; i < inputs; ++i) {
    fusion.weights.push_back(reader.Number<float>());
    if (!std::isfinite(fusion.weights.back())) {
      return absl::InvalidArgumentError(absl::StrCat("weight ", i, " is not finite"));
    }
  }
  if (!reader.AtEnd() || fusion.points < 0) {
    return absl::InvalidArgumentError("a fusion of another size than it says");
  }
  // An earlier version knew fewer.
  fusion.weights.resize(kFusionInputs);
  return fusion;
}

}  // namespace dslide
