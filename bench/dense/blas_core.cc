#include "bench/dense/blas_core.h"

#include <unistd.h>

#include <cstdlib>

#include "absl/strings/match.h"
#include "bench/dense/blas.h"
#include "core/engine/math/kernels.h"

namespace dslide::bench {
namespace {

constexpr char kVariable[] = "OPENBLAS_CORETYPE";

}  // namespace

std::string BetterBlasCore(absl::string_view core, absl::string_view kernel_target) {
  const bool avx512 = absl::StartsWith(kernel_target, "AVX3");
  if (!avx512 && kernel_target != "AVX2") return "";
  for (const char* known : {"Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids"}) {
    if (core == known) return "";
  }
  return avx512 ? "SkylakeX" : "Haswell";
}

void RestartWithBetterBlas(char** argv) {
  if (!BlasAvailable() || getenv(kVariable) != nullptr) return;
  const std::string better = BetterBlasCore(BlasCore(), KernelTarget());
  if (better.empty()) return;
  setenv(kVariable, better.c_str(), /*overwrite=*/1);
  // When it cannot be run anew, this run goes on, and its result names the core.
  execv("/proc/self/exe", argv);
}

}  // namespace dslide::bench
