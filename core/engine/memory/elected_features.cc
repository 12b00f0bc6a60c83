#include "core/engine/memory/elected_features.h"

#include <array>
#include <cmath>
#include <limits>

#include "core/base/counter_rng.h"

namespace dslide {
namespace {

// docs/understand/learning.md has what other numbers of bins cost and find. Two copies a bin leave
// one of seven bins empty.
constexpr uint64_t kBins = 32;
constexpr double kCopies = 64;
constexpr uint64_t kKey = 0x6d696e68617368;

struct Winner {
  uint32_t number = std::numeric_limits<uint32_t>::max();
  uint32_t place = std::numeric_limits<uint32_t>::max();
};

}  // namespace

absl::Span<const uint8_t> FeatureElection::Elect(absl::Span<const RowId> features,
                                                 absl::Span<const float> values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  std::array<Winner, kBins> winners;
  for (size_t i = 0; i < features.size() && squares > 0; ++i) {
    const double part = static_cast<double>(values[i]) * values[i] / squares;
    const auto copies = static_cast<uint64_t>(std::llround(kCopies * part));
    const uint64_t key = DeriveKey(kKey, features[i].value());
    for (uint64_t copy = 0; copy < copies; ++copy) {
      const uint64_t bits = CounterBits(key, copy);
      Winner& winner = winners[(bits >> 32) * kBins >> 32];
      const auto number = static_cast<uint32_t>(bits);
      if (number < winner.number) winner = {number, static_cast<uint32_t>(i)};
    }
  }
  elected_.assign(features.size(), 0);
  for (const Winner& winner : winners) {
    if (winner.place < features.size()) elected_[winner.place] = 1;
  }
  return elected_;
}

}  // namespace dslide
