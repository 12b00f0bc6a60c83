#include "core/base/counter_rng.h"

#include <cmath>

namespace dslide {

float CounterRng::NextGaussian() {
  // 53 bits each; the first is moved off 0 so that its logarithm is finite.
  const double u1 = (static_cast<double>(NextBits() >> 11) + 0.5) * 0x1.0p-53;
  const double u2 = static_cast<double>(NextBits() >> 11) * 0x1.0p-53;
  return static_cast<float>(std::sqrt(-2.0 * std::log(u1)) * std::cos(6.283185307179586 * u2));
}

}  // namespace dslide
