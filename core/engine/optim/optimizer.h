// Applies a row's gradient to its weights, once per step in which the row is touched.
//
// A row's parameters are `dim` weights and optionally one bias; the bias has state like a weight.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "core/base/ids.h"
#include "core/engine/math/kernels.h"
#include "core/spec/optimizer_spec.h"

namespace dslide {

// The learning rate of update number `step` (the first update has step 1). Pure.
double LearningRateAt(const OptimizerSpec& spec, Step step);

// What is the same for all rows of one update; see Optimizer::BeginStep().
struct StepFactors {
  Step step = Step(0);
  double rate = 0.0;
  AdamFactors adam = {};  // Adam only; its decays and `keep` are the row's
};

// One row as the optimizer reads it, and as it writes it. Pointers may be null where noted.
struct RowSource {
  const float* weights = nullptr;     // [dim], 64-byte aligned
  const float* state = nullptr;       // [state_vectors, stride]; null when state_vectors is 0
  const float* bias = nullptr;        // [1]; null when the table has none
  const float* bias_state = nullptr;  // [bias_state_floats]; null when bias is
  const float* row_state = nullptr;   // [row_state_floats]; null when that is 0
};
struct RowView {
  float* weights = nullptr;
  float* state = nullptr;
  float* bias = nullptr;
  float* bias_state = nullptr;
  float* row_state = nullptr;

  RowSource AsSource() const { return {weights, state, bias, bias_state, row_state}; }
};

// One row's part of an update.
struct RowGradient {
  const float* weights = nullptr;  // [dim], 64-byte aligned; of the loss by the weights
  float bias = 0.0f;               // ignored when the row has none
  Step last_step = Step(0);        // of the row's last update; 0: never
};

// Lengths and bounds that all rows of a table share.
struct RowShape {
  int64_t dim = 0;
  int64_t stride = 0;  // floats between two state vectors, >= dim
  float magnitude_bound = 0.0f;
};

// Immutable and thread-safe; Apply() on different rows may run at the same time.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Errors: InvalidArgument from spec.Validate().
  static absl::StatusOr<std::unique_ptr<Optimizer>> Create(const OptimizerSpec& spec);

  // See OptimizerStateSizes.
  int64_t state_vectors() const { return sizes_.vectors; }
  int64_t bias_state_floats() const { return sizes_.bias_floats; }
  int64_t row_state_floats() const { return sizes_.row_floats; }

  // What update number `step` has for every row: rates and corrections, computed once. Without a
  // rate of its own the update has that of the schedule.
  virtual StepFactors BeginStep(Step step, std::optional<double> rate) const = 0;

  // Applies one update to a row: reads it from `from` and writes all of it to `to`, which may be
  // the same memory or apart; but for the average (row_average.h), which is left alone.
  // Lazy Adam: the moments are first decayed by the steps in which the row was not touched
  // (a touched row with gradient 0 in those steps would have the same moments); the weights do not
  // move in skipped steps. Weight decay covers the skipped steps too, all at the present rate.
  // Returns whether the update is good: every gradient, new weight and new bias within the
  // magnitude bound, every new state finite. A caller with `to` apart from `from` can drop a bad
  // one. Requires factors.step > gradient.last_step.
  virtual bool Apply(const StepFactors& factors, const RowShape& shape, const RowGradient& gradient,
                     const RowSource& from, const RowView& to) const = 0;

 protected:
  explicit Optimizer(const OptimizerSpec& spec) : sizes_(StateSizesOf(spec)) {}

 private:
  const OptimizerStateSizes sizes_;
};

}  // namespace dslide
