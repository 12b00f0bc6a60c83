// Times the dense baseline on a data file.

#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/dense/dense_network.h"
#include "core/base/parallel.h"
#include "core/engine/data/dataset.h"

namespace dslide::bench {

struct DenseRunOptions {
  int64_t hidden = 128;
  int64_t batch = 256;
  int64_t steps = 3;  // timed; one more before them brings the memory in
  float learning_rate = 1e-3f;
  uint64_t seed = 1;
  Parallelism parallelism;
};

struct DenseRunResult {
  std::vector<DenseStep> steps;  // the timed ones, in order
  int64_t batch = 0;
  double step_seconds = 0.0;  // median
  double samples_per_second = 0.0;
  double spread = 0.0;  // of the steps' times
  // What data-parallel workers would exchange in a step: the head whole; of the input the rows that
  // were touched, with their ids (or all, when that is less); both biases. And the same with the
  // whole input.
  int64_t gradient_bytes = 0;
  int64_t whole_gradient_bytes = 0;

  nlohmann::ordered_json ToJson() const;
};

// Reads batches in the order of an epoch, values scaled to unit length as dslide's default does.
// Reading is not timed.
// Errors: InvalidArgument for steps < 1; those of DenseNetwork and of the data.
absl::StatusOr<DenseRunResult> RunDense(const Dataset& data, const DenseRunOptions& options);

}  // namespace dslide::bench
