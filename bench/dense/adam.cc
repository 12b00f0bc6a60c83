#include "bench/dense/adam.h"

#include <cmath>

namespace dslide::bench {
namespace {

struct Factors {
  float beta1, beta2, blend1, blend2;
  float rate;      // learning rate / (1 - beta1^step)
  float inverse2;  // 1 / (1 - beta2^step)
  float epsilon;
};

// Compiled once for each instruction set below.
[[gnu::always_inline]] inline void Loop(const Factors& f, int64_t n, const float* __restrict g,
                                        float* __restrict w, float* __restrict m,
                                        float* __restrict v) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float first = f.beta1 * m[i] + f.blend1 * g[i];
    const float second = f.beta2 * v[i] + f.blend2 * (g[i] * g[i]);
    m[i] = first;
    v[i] = second;
    w[i] -= f.rate * first / (std::sqrt(second * f.inverse2) + f.epsilon);
  }
}

void Plain(const Factors& f, int64_t n, const float* g, float* w, float* m, float* v) {
  Loop(f, n, g, w, m, v);
}

// Traffic with memory bounds this loop: wider vectors than AVX2's gain nothing.
#if defined(__x86_64__)
[[gnu::target("avx2")]] void Wide(const Factors& f, int64_t n, const float* g, float* w, float* m,
                                  float* v) {
  Loop(f, n, g, w, m, v);
}
bool HasWide() { return __builtin_cpu_supports("avx2") != 0; }
#else
void Wide(const Factors& f, int64_t n, const float* g, float* w, float* m, float* v) {
  Loop(f, n, g, w, m, v);
}
bool HasWide() { return false; }
#endif

}  // namespace

void DenseAdam::Update(int64_t step, int64_t n, const float* g, float* w, float* m,
                       float* v) const {
  const auto t = static_cast<double>(step);
  const Factors factors{
      .beta1 = beta1,
      .beta2 = beta2,
      .blend1 = 1.0f - beta1,
      .blend2 = 1.0f - beta2,
      .rate = static_cast<float>(learning_rate / (1.0 - std::pow(double{beta1}, t))),
      .inverse2 = static_cast<float>(1.0 / (1.0 - std::pow(double{beta2}, t))),
      .epsilon = epsilon};
  (HasWide() ? Wide : Plain)(factors, n, g, w, m, v);
}

}  // namespace dslide::bench
