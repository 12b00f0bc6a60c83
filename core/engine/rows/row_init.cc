#include "core/engine/rows/row_init.h"

#include <bit>
#include <cmath>

#include "core/base/counter_rng.h"

namespace dslide {
namespace {

constexpr uint64_t kInitPart = 0x1417;

float ScaleOf(const TableSpec& spec) {
  if (spec.init.scale > 0.0) return static_cast<float>(spec.init.scale);
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec.dim)));
}

}  // namespace

uint64_t KeyOfName(absl::string_view name) {
  uint64_t key = 0;
  for (const char c : name) key = DeriveKey(key, static_cast<uint8_t>(c));
  return key;
}

RowInit::RowInit(const TableSpec& spec, uint64_t model_seed)
    : kind_(spec.init.kind),
      scale_(ScaleOf(spec)),
      key_(DeriveKey(DeriveKey(model_seed, kInitPart), KeyOfName(spec.name))) {}

void RowInit::Fill(RowId row, absl::Span<float> weights) const {
  CounterRng rng(DeriveKey(key_, row.value()));
  switch (kind_) {
    case InitKind::kZero:
      for (float& weight : weights) weight = 0.0f;
      return;
    case InitKind::kUniform:
      for (float& weight : weights) weight = scale_ * (2.0f * rng.NextUniform() - 1.0f);
      return;
    case InitKind::kGaussian:
      break;
  }
  // 24 bits make the uniform part, the other 40 are counted: variance 1/12 + 40/4.
  const float unit = scale_ / std::sqrt(10.0f + 1.0f / 12.0f);
  for (float& weight : weights) {
    const uint64_t bits = rng.NextBits();
    const float uniform = static_cast<float>(bits & 0xffffff) * 0x1.0p-24f + (0.5f * 0x1.0p-24f);
    const float binomial = static_cast<float>(std::popcount(bits >> 24));
    weight = unit * (binomial - 20.5f + uniform);
  }
}

}  // namespace dslide
