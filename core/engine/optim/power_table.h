// Powers of one base by table, for the factors of lazily decayed state.

#pragma once

#include <array>
#include <cstdint>

namespace dslide {

// Powers base^n with at most one multiplication per six bits of n, where std::pow would cost more
// than the update of a row. Immutable, thread-safe, equal bits on every machine.
class PowerTable {
 public:
  // Requires base in [0, 1].
  explicit PowerTable(double base);

  // Returns base^n. n >= 0. Relative error <= 2^-46 while the result is a normal number.
  double Power(int64_t n) const {
    double result = digits_[0][n & kDigitMask];
    n >>= kDigitBits;
    for (int level = 1; n != 0 && level < kLevels; n >>= kDigitBits, ++level) {
      result *= digits_[level][n & kDigitMask];
    }
    return result;
  }

 private:
  static constexpr int kDigitBits = 6;
  static constexpr int64_t kDigitMask = (1 << kDigitBits) - 1;
  static constexpr int kLevels = 11;  // 66 bits: every int64_t

  // digits_[level][i] = base^(i * 64^level)
  std::array<std::array<double, kDigitMask + 1>, kLevels> digits_;
};

}  // namespace dslide
