#include "core/engine/optim/power_table.h"

namespace dslide {

PowerTable::PowerTable(double base) {
  for (auto& level : digits_) {
    level[0] = 1.0;
    for (int64_t i = 1; i <= kDigitMask; ++i) level[i] = level[i - 1] * base;
    base *= level[kDigitMask];
  }
}

}  // namespace dslide
