// First values of rows: a pure function of (model seed, table name, global row id).

#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/spec/model_spec.h"

namespace dslide {

// A key of a table's name, to derive random keys from.
uint64_t KeyOfName(absl::string_view name);

// Draws first weights. Immutable and thread-safe. Only integer arithmetic and one multiplication a
// value, so the bits are equal on every machine.
class RowInit {
 public:
  RowInit(const TableSpec& spec, uint64_t model_seed);

  // True when all first weights are 0, and memory that starts as 0 needs no writing.
  bool is_zero() const { return kind_ == InitKind::kZero; }

  // Writes the first weights of a row. weights: [dim].
  //
  // kGaussian is drawn as a binomial of 40 fair bits plus a uniform deviate, brought to variance 1:
  // excess kurtosis -0.05, at most 6.4 standard deviations. It costs 2 ns a value where Box-Muller
  // costs 30, and needs no logarithm or cosine whose last bit depends on the C library.
  void Fill(RowId row, absl::Span<float> weights) const;

 private:
  const InitKind kind_;
  const float scale_;
  const uint64_t key_;
};

}  // namespace dslide
