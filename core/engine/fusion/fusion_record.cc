#include "core/engine/fusion/fusion_record.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/byte_fields.h"
#include "core/base/status_macros.h"
#include "core/engine/fusion/fusion_inputs.h"

namespace dslide {
namespace {

absl::Status ReadWeights(uint32_t inputs, ByteReader& reader, std::vector<float>& weights) {
  for (uint32_t i = 0; i < inputs; ++i) {
    weights.push_back(reader.Number<float>());
    if (!std::isfinite(weights.back())) {
      return absl::InvalidArgumentError(absl::StrCat("weight ", i, " is not finite"));
    }
  }
  // An earlier version knew fewer.
  weights.resize(kFusionInputs);
  return absl::OkStatus();
}

}  // namespace

std::string EncodeFusion(const FusionWeights& fusion) {
  ByteWriter record;
  record.Number(static_cast<uint32_t>(fusion.weights.size()));
  record.Number(static_cast<uint32_t>(fusion.preselection.candidates));
  record.Number(static_cast<uint64_t>(fusion.points));
  for (const float weight : fusion.weights) record.Number(weight);
  for (const float weight : fusion.preselection.weights) record.Number(weight);
  return std::move(record).Take();
}

absl::StatusOr<FusionWeights> DecodeFusion(absl::string_view record) {
  ByteReader reader(record);
  const auto inputs = reader.Number<uint32_t>();
  FusionWeights fusion;
  fusion.preselection.candidates = reader.Number<uint32_t>();
  fusion.points = static_cast<int64_t>(reader.Number<uint64_t>());
  if (!reader.ok() || inputs > kFusionInputs) {
    return absl::InvalidArgumentError(absl::StrCat("a fusion of ", inputs, " inputs in ",
                                                   record.size(), " bytes, this version has ",
                                                   kFusionInputs));
  }
  RETURN_IF_ERROR(ReadWeights(inputs, reader, fusion.weights));
  if (fusion.preselection.candidates > 0) {
    RETURN_IF_ERROR(ReadWeights(inputs, reader, fusion.preselection.weights));
  }
  if (!reader.AtEnd() || fusion.points < 0) {
    return absl::InvalidArgumentError("a fusion of another size than it says");
  }
  return fusion;
}

}  // namespace dslide
