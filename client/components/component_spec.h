// The parts of a model spec that are kept as records: memory, label trees, linear rows, fusion.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/spec/model_spec.h"
#include "core/spec/tree_shape.h"

namespace dslide {

// Whether the model has a memory; everything else of this room needs one.
bool HasComponents(const ModelSpec& spec);

// What the data says of the sizes.
struct ComponentSizes {
  int64_t points = 0;
  int64_t labels = 0;
  int64_t used_labels = 0;  // that some point carries
  std::string path = {};    // of the data, for errors
};

// Fills in the sizes that the spec leaves to the data.
//   known : the model of that name that is there; null: none. What fits what it was made for keeps
//           its sizes, and gets larger ones with `grow`
// Errors: InvalidArgument when a size that the spec gives is too small for the data;
// FailedPrecondition MODEL_DIFFERS when those of `known` are, and it may not grow.
absl::Status FillComponentSizes(const ComponentSizes& sizes, const ModelSpec* known, bool grow,
                                ModelSpec& spec);

// The tables of a model with a memory; pointers into its spec, which outlives it. Immutable.
struct ComponentTables {
  explicit ComponentTables(const ModelSpec& spec);

  const TableSpec* memory;
  const TableSpec* trees;  // null: none, as the two below
  const TableSpec* linear;
  const TableSpec* fusion;
  std::optional<TreeShape> shape;  // with trees
};

}  // namespace dslide
