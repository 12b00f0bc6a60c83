// What happens to the values of a sample between the file and the network.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/parallel.h"
#include "core/engine/data/dataset.h"
#include "core/engine/data/epoch_order.h"
#include "core/engine/data/sparse_batch.h"

namespace dslide {

// The data layer's name for InputTransform of core/spec/model_spec.h.
enum class ValueTransform {
  kRaw,    // values as they stand in the file
  kL2,     // scaled to unit length; a sample without a non-zero value stays as it is
  kTfIdf,  // damped(value) * idf[feature], then unit length
};

// Transforms all values of *batch in place. damped(v) is 1 + ln v for v >= 1 and v itself for
// smaller magnitudes (continuous at 1), odd in v: counts are damped, fractions kept.
//
//   idf : [num_features], used by kTfIdf only.
//
// Errors: InvalidArgument, with nothing changed, when kTfIdf meets a feature >= idf.size().
absl::Status ApplyTransform(ValueTransform transform, absl::Span<const float> idf,
                            SparseBatch* batch);

// Returns idf[f] = ln((1 + points) / (1 + points with f)), [num_features], over the training points
// of `split` only. Reads the validation points alone when the dataset already counts
// DocumentFrequency(), otherwise the training points.
//
// Errors: InvalidArgument when the split is not of data.num_points(); those of ReadSamples().
absl::StatusOr<std::vector<float>> ComputeIdf(const Dataset& data, const TrainingSplit& split,
                                              Parallelism parallelism);

// What a trained model must remember of its input: weight and name of each feature.
struct FeatureStats {
  std::vector<float> idf;          // [num_features]
  std::vector<std::string> names;  // [num_features]; empty strings when names are unknown

  // Names of the dataset's features beside `idf` ([data.num_features()]).
  static FeatureStats FromDataset(const Dataset& data, std::vector<float> idf);

  // Text, one feature a line, in id order: `idf<TAB>name`. The floats read back bit-equal.
  // Errors: InvalidArgument when sizes differ or a name holds a tab or a line end; system errors.
  absl::Status Save(const std::string& path) const;
  // Errors: NotFound; InvalidArgument naming file, line and column.
  static absl::StatusOr<FeatureStats> Load(const std::string& path);
  // The same for a text in memory; `origin` names it in errors.
  absl::StatusOr<std::string> ToText(const std::string& origin) const;
  static absl::StatusOr<FeatureStats> FromText(absl::string_view text, const std::string& origin);
};

}  // namespace dslide
