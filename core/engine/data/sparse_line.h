// One line of the sparse text format. Internal to the reader; the fuzzer calls it too.

#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "core/engine/data/parse_error.h"
#include "core/engine/data/sparse_batch.h"

namespace dslide {

// Parses lines `label,label feature:value ...` with ids below the given bounds. Copyable;
// immutable.
class SparseLineParser {
 public:
  SparseLineParser(int64_t num_features, int64_t num_labels)
      : num_features_(num_features), num_labels_(num_labels) {}

  // Appends one sample, ids sorted, to *batch. `line` has no line end. On a malformed line returns
  // false, describes its first malformed place in *error, and leaves *batch as it was.
  bool Parse(absl::string_view line, SparseBatch* batch, LineError* error) const;

 private:
  struct Cursor;

  bool ParseLabels(Cursor* cursor, SparseBatch* batch, LineError* error) const;
  bool ParseFeature(Cursor* cursor, SparseBatch* batch, LineError* error) const;
  // Called when ids did not ascend: sorts the sample that starts at the given places.
  bool SortSample(absl::string_view line, int64_t first_feature, int64_t first_label,
                  SparseBatch* batch, LineError* error) const;

  int64_t num_features_;
  int64_t num_labels_;
};

// Parses all of `text` as a finite decimal number; independent of the locale. Magnitudes too small
// for a float become 0; too large ones, "nan" and "inf" are refused.
bool ParseFloat(absl::string_view text, float* value);

}  // namespace dslide
