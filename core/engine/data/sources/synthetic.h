// Seedable data of any width that can be learnt: for tests, for benchmarks, and for machines
// without data of their own.
//
// The hidden structure: each label has a few characteristic features; a point draws labels with a
// power-law popularity, features mostly from its labels' characteristic ones, and some noise.

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "core/base/parallel.h"

namespace dslide {

struct SyntheticOptions {
  int64_t points = 50000;
  int64_t features = 10000;        // [16, kMaxTableRows]
  int64_t labels = 5000;           // [2, kMaxTableRows]
  double features_per_point = 30;  // mean; distinct ids. [1, features / 2]
  double labels_per_point = 3;     // mean; distinct ids. [1, labels / 2]
  uint64_t seed = 1;               // of the hidden structure and of the points
  // Points [first_point, first_point + points) of the endless sequence that the seed defines: two
  // files with disjoint ranges are a training and a test part of one task.
  int64_t first_point = 0;
  Parallelism parallelism;

  // Errors: InvalidArgument naming the field, the value and the range.
  absl::Status Validate() const;
};

// Writes a file in the sparse text format. The same options give the same bytes for any number of
// threads; memory does not grow with points, features or labels.
//
// Errors: those of Validate(); system errors naming the path.
absl::Status GenerateSynthetic(const SyntheticOptions& options, const std::string& path);

}  // namespace dslide
