// OpenBLAS; compiled when the build found it.

#include <cblas.h>

#include "absl/strings/str_cat.h"
#include "bench/dense/blas.h"

namespace dslide::bench {
namespace {

// BLAS counts in int.
int Int(int64_t n) { return static_cast<int>(n); }

}  // namespace

bool BlasAvailable() { return true; }

std::string BlasCore() { return openblas_get_corename(); }

std::string BlasDescription() {
  const std::string config = openblas_get_config();  // "OpenBLAS 0.3.21 OPTION OPTION ..."
  return absl::StrCat(config.substr(0, config.find(' ', config.find(' ') + 1)), ", ", BlasCore());
}

void UseCallingThread() { openblas_set_num_threads(1); }

void MultiplyTransposed(const float* a, const float* b, int64_t rows, int64_t cols, int64_t depth,
                        float* c) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, Int(rows), Int(cols), Int(depth), 1.0f, a,
              Int(depth), b, Int(depth), 0.0f, c, Int(cols));
}

void Multiply(const float* a, const float* b, int64_t rows, int64_t cols, int64_t depth, float* c) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, Int(rows), Int(cols), Int(depth), 1.0f, a,
              Int(depth), b, Int(cols), 0.0f, c, Int(cols));
}

void TransposedMultiply(const float* a, const float* b, int64_t rows, int64_t cols, int64_t depth,
                        float* c) {
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, Int(rows), Int(cols), Int(depth), 1.0f, a,
              Int(rows), b, Int(cols), 0.0f, c, Int(cols));
}

}  // namespace dslide::bench
