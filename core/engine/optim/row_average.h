// The exponential moving average of a row's weights over all steps, kept lazily.
//
// With weights w_s after step s, counted from 1, and the decay d, the average after step t is
//
//   avg_t = (1 - d) / (1 - d^t) * sum over s = 1 .. t of d^(t - s) * w_s
//
// The division corrects the start (Kingma and Ba 2015, arXiv:1412.6980, sec. 3): after the first
// step the average is w_1, not mostly the first values. Steps that do not touch the row count with
// the weights that it has. A row keeps its *lag* avg - w, which such steps only shrink:
//
//   lag_(t+n) = lag_t * Remaining(t, t + n),   Remaining(t, t + n) = d^n (1 - d^t) / (1 - d^(t+n))
//
// so a row is written when it is updated and at no other time, and rows whose lag was set to 0 have
// an average that begins with the weights they have. A lag is small: bf16 holds it well.

#pragma once

#include "core/base/ids.h"
#include "core/engine/optim/power_table.h"

namespace dslide {

// Immutable, thread-safe, equal bits on every machine.
class RowAverage {
 public:
  // decay: in (0, 1).
  explicit RowAverage(double decay) : powers_(decay) {}

  // What is left after step `now` of the lag that a row had after step `last` if it was not updated
  // in between. 0 where last is 0: a row that was never updated has no lag. In [0, 1].
  float Remaining(Step last, Step now) const;

  // What an update does to a lag: lag = keep * lag + blend * (old weights - new weights).
  struct LagFactors {
    float keep;
    float blend;
  };
  // Of update number `step` to a row that was last updated in step `last` < step.
  LagFactors FactorsOf(Step last, Step step) const {
    return {.keep = Remaining(last, step), .blend = Remaining(Step(step.value() - 1), step)};
  }

 private:
  const PowerTable powers_;
};

}  // namespace dslide
