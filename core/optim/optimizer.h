// Applies a row's gradient to its weights, once per step in which the row is touched.
//
// A row's parameters are `dim` weights and optionally one bias; the bias has state like a weight.

#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "core/base/ids.h"
#include "core/optim/optimizer_spec.h"

namespace dslide {

// The learning rate of update number `step` (the first update has step 1). Pure.
double LearningRateAt(const OptimizerSpec& spec, Step step);

// One row's memory as the optimizer sees it. Pointers may be null where noted.
struct RowView {
  float* weights = nullptr;     // [dim], 64-byte aligned
  float* state = nullptr;       // [state_vectors, stride]; null when state_vectors is 0
  float* bias = nullptr;        // [1]; null when the table has none
  float* bias_state = nullptr;  // [bias_state_floats]; null when bias is
  float* row_state = nullptr;   // [row_state_floats]; null when that is 0
};

// Immutable and thread-safe; Apply() on different rows may run at the same time.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Errors: InvalidArgument from spec.Validate().
  static absl::StatusOr<std::unique_ptr<Optimizer>> Create(const OptimizerSpec& spec);

  // State vectors of `dim` floats per row: SGD 0, Adagrad 1, row-wise Adagrad 0, Adam 2.
  virtual int64_t state_vectors() const = 0;
  // State floats of a bias: SGD 0, Adagrad 1, row-wise Adagrad 0 (shares the row's), Adam 2.
  virtual int64_t bias_state_floats() const = 0;
  // State floats of a row as a whole: row-wise Adagrad 1 (mean square of the gradient), others 0.
  virtual int64_t row_state_floats() const = 0;

  // Applies update number `step` to a row last updated at `last_step` (0: never).
  //   gradient      : [dim], 64-byte aligned; of the loss with respect to the weights
  //   bias_gradient : ignored when row.bias is null
  //   stride        : floats between two state vectors, >= dim
  // Lazy Adam: the moments are first decayed by the steps in which the row was not touched
  // (a touched row with gradient 0 in those steps would have the same moments); the weights do not
  // move in skipped steps. Weight decay covers the skipped steps too, all at the present rate.
  // Requires step > last_step.
  virtual void Apply(const RowView& row, const float* gradient, float bias_gradient, int64_t dim,
                     int64_t stride, Step step, Step last_step) const = 0;
};

}  // namespace dslide
