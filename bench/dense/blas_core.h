// A BLAS library that does not know a new processor falls back to code of twenty years ago: six
// times slower, which would flatter everything that is compared with it.

#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace dslide::bench {

// The core that OpenBLAS should be told to use on a processor with the instruction set
// `kernel_target` (as KernelTarget() names it) when it chose `core` itself; "" when that is fine.
std::string BetterBlasCore(absl::string_view core, absl::string_view kernel_target);

// Runs this program anew with OPENBLAS_CORETYPE set when that helps and it is not set yet: the
// library reads it once, while it is loaded. Returns otherwise. Call it first in main().
void RestartWithBetterBlas(char** argv);

}  // namespace dslide::bench
