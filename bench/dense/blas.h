// The only door to the BLAS library, which the build may be without.

#pragma once

#include <cstdint>
#include <string>

namespace dslide::bench {

// False in a build without a BLAS library; the products below then abort.
bool BlasAvailable();

// The family of processors whose code the library chose; "" without a library.
std::string BlasCore();

// Library, version and the processor it was tuned for; "none" without a library.
std::string BlasDescription();

// Makes every product run on its calling thread: callers bring their own threads.
void UseCallingThread();

// Products of row-major matrices with `rows` rows, `cols` columns and the sum over `depth` terms.
// c: [rows, cols]; overwritten. Thread-safe.

// c = a * b^T. a: [rows, depth], b: [cols, depth].
void MultiplyTransposed(const float* a, const float* b, int64_t rows, int64_t cols, int64_t depth,
                        float* c);
// c = a * b. a: [rows, depth], b: [depth, cols].
void Multiply(const float* a, const float* b, int64_t rows, int64_t cols, int64_t depth, float* c);
// c = a^T * b. a: [depth, rows], b: [depth, cols].
void TransposedMultiply(const float* a, const float* b, int64_t rows, int64_t cols, int64_t depth,
                        float* c);

}  // namespace dslide::bench
