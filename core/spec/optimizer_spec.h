// The settings of an optimizer and of its learning-rate schedule. Data only; see optimizer.h.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace dslide {

enum class OptimizerKind { kSgd, kAdagrad, kRowWiseAdagrad, kAdam };

enum class ScheduleKind {
  kConstant,
  kLinear,  // warm-up, then a straight line to final_fraction over decay_steps
  kCosine,  // warm-up, then half a cosine to final_fraction over decay_steps
};

struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::kConstant;
  int64_t warmup_steps = 0;     // the rate rises linearly from 0 over these steps; for every kind
  int64_t decay_steps = 0;      // steps after the warm-up until final_fraction is reached
  double final_fraction = 0.0;  // of the base rate; range [0, 1]

  absl::Status Validate() const;
  friend bool operator==(const ScheduleSpec&, const ScheduleSpec&) = default;
};

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::kAdam;
  double learning_rate = 1e-3;  // > 0
  double beta1 = 0.9;           // Adam; range [0, 1)
  double beta2 = 0.999;         // Adam; range [0, 1)
  double epsilon = 1e-8;        // Adam, Adagrad; >= 1e-16
  // Decoupled (AdamW): each touched weight shrinks by learning_rate * weight_decay for every step
  // since the row was last touched. Biases are not decayed. Range [0, 1].
  double weight_decay = 0.0;
  ScheduleSpec schedule = {};
  // Above 0: each row also keeps the exponential moving average of its weights and its bias over
  // all steps, those that did not touch it included: avg = average_decay * avg + (1 -
  // average_decay) * weights, divided by 1 - average_decay^steps so that it starts without bias.
  // Training goes on from the weights, predictions read the average. 0: none. Range [0, 1).
  double average_decay = 0.0;

  absl::Status Validate() const;
  // Whether an update may have this rate. Errors: InvalidArgument saying why not.
  absl::Status CheckRate(double rate) const;
  friend bool operator==(const OptimizerSpec&, const OptimizerSpec&) = default;
};

// By what the updates of a table are scaled in one job; its schedule runs over the job's steps.
struct TableRate {
  std::string table;
  double learning_rate = 1e-3;  // > 0
  ScheduleSpec schedule = {};

  // Errors: InvalidArgument naming the field, the value and the range.
  absl::Status Validate() const;
  friend bool operator==(const TableRate&, const TableRate&) = default;
};

// What is kept besides a row's weights and bias: an optimizer's own state, and for an average one
// vector and one float of the bias more, the last.
struct OptimizerStateSizes {
  int64_t vectors = 0;      // of `dim` numbers: SGD 0, Adagrad 1, row-wise Adagrad 0, Adam 2
  int64_t bias_floats = 0;  // of a bias: the same numbers; a row-wise optimizer's bias has none
  int64_t row_floats = 0;   // of the row as a whole: row-wise Adagrad 1 (mean square), others 0
};
OptimizerStateSizes StateSizesOf(const OptimizerSpec& spec);

}  // namespace dslide
