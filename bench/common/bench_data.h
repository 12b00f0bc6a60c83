// Generated data of a given shape, kept between runs.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/parallel.h"
#include "core/flags/command_line.h"

namespace dslide::bench {

// The default is the shape of Amazon-670K with a part of its points.
struct DataShape {
  int64_t features = 135909;
  int64_t labels = 670091;
  int64_t points = 50000;
  int64_t eval_points = 2000;
  double features_per_point = 69;
  double labels_per_point = 4.3;
  std::string directory = "data/bench";  // where generated files are kept
};

struct DataFiles {
  std::string train;
  std::string eval;  // "" when there is none
};

void AddShapeOptions(CliCommand app, DataShape& shape);

// Paths of a training and a test part of the shape, generated when they are not there. A file
// appears under its name only when it is whole.
// Errors: those of GenerateSynthetic(); system errors naming the path.
absl::StatusOr<DataFiles> MakeData(const DataShape& shape, Parallelism parallelism);

}  // namespace dslide::bench
