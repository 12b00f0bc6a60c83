// The optimizers as textbooks write them: dense, one parameter at a time, every step, in double
// precision. A step in which a parameter is not touched is a step with gradient 0.

#pragma once

#include <cstdint>
#include <vector>

#include "core/spec/optimizer_spec.h"

namespace dslide::reference {

// The learning rate of update `step` (from 1), written as a walk through the schedule's phases.
double LearningRate(const OptimizerSpec& spec, int64_t step);

// One parameter with its state.
struct Parameter {
  double weight = 0.0;
  double first = 0.0;   // Adam: first moment; Adagrad: sum of squares
  double second = 0.0;  // Adam: second moment
  bool decays = true;   // weights do, biases do not
};

// One row: all parameters share what a row-wise optimizer keeps.
struct Row {
  std::vector<Parameter> parameters;
  double row_state = 0.0;
};

// One step in which every parameter has a gradient. gradients: [row.parameters.size()].
void DenseStep(const OptimizerSpec& spec, int64_t step, const std::vector<double>& gradients,
               Row* row);

// One step in which the row is not touched: state decays as with gradient 0 and weight decay
// applies at `rate`, but the moments do not move the weights.
void MissedStep(const OptimizerSpec& spec, double rate, Row* row);

// The exponential moving average of one number, by its definition: a weighted mean of all values
// since the first, in which a value counts `decay` times what its successor does.
class MovingAverage {
 public:
  explicit MovingAverage(double decay) : decay_(decay) {}

  void Add(double value) {
    sum_ = decay_ * sum_ + value;
    weights_ = decay_ * weights_ + 1.0;
  }
  // Requires a value.
  double Mean() const { return sum_ / weights_; }

 private:
  const double decay_;
  double sum_ = 0.0;
  double weights_ = 0.0;
};

}  // namespace dslide::reference
