// dslide bench, which becomes dslide-bench.

#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace dslide::cli {

// The benchmark program of `directory`. Errors: NotFound with the remedy.
absl::StatusOr<std::string> BenchProgram(const std::string& directory);

// Replaces this process by the benchmark program, with `args`: what follows `bench`. Returns the
// exit code when it cannot.
int RunBench(const std::vector<std::string>& args);

}  // namespace dslide::cli
