// The dense baseline in plain loops and double precision: embedding bag, bias, ReLU, full softmax,
// Adam.

#pragma once

#include <cstdint>
#include <vector>

#include "core/engine/data/sparse_batch.h"

namespace dslide::reference {

// A parameter with Adam's moments and the gradient of the last step; all of one size.
struct DenseParameter {
  std::vector<double> value, gradient, m, v;

  explicit DenseParameter(std::vector<double> first_values);
};

struct DenseModel {
  int64_t features, hidden, labels;
  DenseParameter embedding;    // [features, hidden]
  DenseParameter hidden_bias;  // [hidden]
  DenseParameter head;         // [labels, hidden]
  DenseParameter head_bias;    // [labels]
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  int64_t steps = 0;
};

// One step; returns the mean loss before it. A label's target is 1 / labels of its sample, samples
// without labels have loss 0. Of the embedding only rows that occur are updated, of all others
// everything.
double TrainDense(DenseModel& model, const SparseBatch& batch);

}  // namespace dslide::reference
