// The baseline's optimizer, of its own: it shares no code with what it is compared with.

#pragma once

#include <cstdint>

namespace dslide::bench {

// Adam without weight decay (Kingma and Ba 2014, arXiv:1412.6980).
struct DenseAdam {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;

  // Step number `step` (from 1). w, m, v, g: [n]; the first three are updated. The same bits on
  // every instruction set. Thread-safe on different arrays.
  void Update(int64_t step, int64_t n, const float* g, float* w, float* m, float* v) const;
};

}  // namespace dslide::bench
