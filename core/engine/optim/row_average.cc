#include "core/engine/optim/row_average.h"

#include <cfloat>

namespace dslide {

float RowAverage::Remaining(Step last, Step now) const {
  if (last == Step(0)) return 0.0f;
  if (now <= last) return 1.0f;
  const double left = powers_.Power(now.value() - last.value()) *
                      (1.0 - powers_.Power(last.value())) / (1.0 - powers_.Power(now.value()));
  // Arithmetic on subnormal numbers is slow, and what they would add is nothing.
  return left < double{FLT_MIN} ? 0.0f : static_cast<float>(left);
}

}  // namespace dslide
