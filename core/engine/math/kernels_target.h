// The choice of the instruction set, for the kernels' own sources only.

#pragma once

#include "hwy/targets.h"

namespace dslide {

// Applies the environment's limit to Highway's choice. Called once, by LimitTargetsOnce().
bool LimitTargets();

// Makes sure that the limit holds before the first dispatch. Thread-safe; afterwards one load.
inline void LimitTargetsOnce() { [[maybe_unused]] static const bool limited = LimitTargets(); }

}  // namespace dslide

// The function compiled for the chosen instruction set. `name` must be HWY_EXPORTed.
#define DSLIDE_DISPATCH(name) (::dslide::LimitTargetsOnce(), HWY_DYNAMIC_DISPATCH(name))
