// Progress of a training for programs that read logs.

#pragma once

#include <memory>

#include "client/trainer/progress.h"
#include "core/base/clock.h"

namespace dslide::cli {

// Every report is a line of the log with its figures as fields, every five seconds at most. `clock`
// outlives the result.
std::unique_ptr<ProgressSink> LoggedProgress(const Clock& clock);

}  // namespace dslide::cli
