// What every kernel test shares: a run per instruction set, and arrays that end at a guard page.

#pragma once

#include <sys/mman.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/base/counter_rng.h"
#include "core/engine/math/kernels.h"
#include "gtest/gtest.h"
#include "hwy/highway.h"

namespace dslide {

// The unit roundoff of float, as in the contracts.
inline constexpr double kU = 0x1.0p-24;
// The distance between subnormal floats: the absolute error of a product that underflows.
inline constexpr double kTiny = 0x1.0p-149;
// The smallest normal float: the absolute error where subnormal numbers count as 0.
inline constexpr double kFlushed = 0x1.0p-126;

// Empty, one element, around every vector length, and the usual dims.
inline const std::vector<int64_t>& Lengths() {
  static const auto* const lengths =
      new std::vector<int64_t>{0,  1,  2,  3,  4,  5,  7,  8,   9,   15,  16,  17,  24,
                               31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 200, 300};
  return *lengths;
}

// `size` values of T whose last byte is the last one before an inaccessible page: reading or
// writing beyond the end faults, in every build.
template <typename T>
class GuardedArray {
 public:
  explicit GuardedArray(int64_t size) : size_(static_cast<size_t>(size)) {
    const size_t bytes = size_ * sizeof(T);
    mapped_ = (bytes / kPage + 2) * kPage;
    memory_ = static_cast<char*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(memory_ + mapped_ - kPage, kPage, PROT_NONE);
    data_ = reinterpret_cast<T*>(memory_ + mapped_ - kPage - bytes);
  }
  explicit GuardedArray(const std::vector<T>& values)
      : GuardedArray(static_cast<int64_t>(values.size())) {
    std::copy(values.begin(), values.end(), data_);
  }
  ~GuardedArray() { munmap(memory_, mapped_); }
  GuardedArray(const GuardedArray&) = delete;
  GuardedArray& operator=(const GuardedArray&) = delete;

  T* data() { return data_; }
  T& operator[](int64_t i) { return data_[i]; }
  absl::Span<const T> span() const { return {data_, size_}; }
  std::vector<T> ToVector() const { return {data_, data_ + size_}; }

 private:
  static constexpr size_t kPage = 4096;
  size_t size_;
  size_t mapped_;
  char* memory_;
  T* data_;
};

enum class Values { kUnit, kWide, kSubnormal };

inline const std::vector<Values>& AllValues() {
  static const auto* const all =
      new std::vector<Values>{Values::kUnit, Values::kWide, Values::kSubnormal};
  return *all;
}

// Random numbers of both signs: in [-1, 1), over thirty powers of two, or mostly subnormal.
inline std::vector<float> RandomFloats(int64_t n, Values values, uint64_t seed) {
  CounterRng rng(DeriveKey(seed, static_cast<uint64_t>(n)));
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) {
    x = 2.0f * rng.NextUniform() - 1.0f;
    if (values == Values::kWide) {
      x = std::ldexp(x, static_cast<int>(rng.NextBelow(30)) - 15);
    } else if (values == Values::kSubnormal) {
      x = std::ldexp(x, -120 - static_cast<int>(rng.NextBelow(28)));
    }
  }
  return out;
}

inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Runs a test once for each instruction set that this CPU and this build have.
class KernelTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    hwy::SetSupportedTargetsForTest(GetParam());
    ASSERT_EQ(std::string(KernelTarget()), hwy::TargetName(GetParam()));
  }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

inline std::vector<int64_t> KernelTargets() {
  KernelTarget();  // the environment's limit counts here too
  return hwy::SupportedAndGeneratedTargets();
}

inline std::string KernelTargetName(const testing::TestParamInfo<int64_t>& info) {
  return hwy::TargetName(info.param);
}

}  // namespace dslide

#define DSLIDE_INSTANTIATE_KERNEL_TEST(suite)                                            \
  INSTANTIATE_TEST_SUITE_P(Targets, suite, testing::ValuesIn(::dslide::KernelTargets()), \
                           ::dslide::KernelTargetName)
