// What a build without a BLAS library has in its place.

#include <cstdlib>

#include "bench/dense/blas.h"

namespace dslide::bench {

bool BlasAvailable() { return false; }
std::string BlasCore() { return ""; }
std::string BlasDescription() { return "none"; }
void UseCallingThread() {}
void MultiplyTransposed(const float*, const float*, int64_t, int64_t, int64_t, float*) { abort(); }
void Multiply(const float*, const float*, int64_t, int64_t, int64_t, float*) { abort(); }
void TransposedMultiply(const float*, const float*, int64_t, int64_t, int64_t, float*) { abort(); }

}  // namespace dslide::bench
