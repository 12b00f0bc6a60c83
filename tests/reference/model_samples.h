// Small made-up models and batches for tests of training.

#pragma once

#include <cstdint>
#include <vector>

#include "core/spec/model_spec.h"
#include "tests/reference/model_reference.h"

namespace dslide::reference {

struct ModelShape {
  int64_t features = 20;
  int64_t width = 8;           // after the embedding
  std::vector<int64_t> dense;  // widths of the dense layers
  int64_t labels = 30;
  HeadLoss loss = HeadLoss::kSoftmax;
  int64_t max_active = 0;
  int64_t tail_rows = 0;
  int64_t sampled_candidates = 0;
  int64_t named = 0;         // explicit rows of a sample, about; 0: batches name none
  bool fingerprints = true;  // are sent where the head has hash tables
  OptimizerKind optimizer = OptimizerKind::kSgd;
  double learning_rate = 1.0;
  uint64_t seed = 7;
};

// Tables "input" (with a bias row), "dense-0", ..., "output"; gaussian first weights everywhere,
// few slots so that small tables still spread over several shards.
ModelSpec MakeSpec(const ModelShape& shape);

// `count` samples, a function of (shape, key): 1 to 5 features with values around 1 and the bias
// row, 0 to 3 labels (one sample in eight has none). Explicit rows have offsets around 0 and
// weights of 0 to 3; labels may be among them. All ids ascend.
std::vector<Sample> MakeSamples(const ModelShape& shape, int64_t count, uint64_t key);

// Gives each sample all rows of the head as terms.
void UseAllRows(int64_t rows, std::vector<Sample>& samples);

}  // namespace dslide::reference
