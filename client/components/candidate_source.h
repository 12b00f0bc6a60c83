// Where a network's active rows come from when hashing does not choose them.

#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/engine/data/sparse_batch.h"
#include "core/protocol/explicit_rows.h"

namespace dslide {

// Thread safety: all functions may be called at the same time. Samples are transformed already.
// Errors: those of whoever is asked.
class CandidateSource {
 public:
  virtual ~CandidateSource() = default;

  // Rows of the head for each sample of a step: with logit offsets, and with weights where they
  // stand for others. `points`: the samples' numbers in their dataset. A pure function of its
  // arguments and of what was learnt before the first step.
  virtual absl::StatusOr<ExplicitRows<RowId>> ForTraining(const SparseBatch& samples,
                                                          absl::Span<const int64_t> points,
                                                          int64_t epoch) = 0;

  // The rows that are worth scoring, with logit offsets. `points`: the samples' numbers in the
  // dataset of training, which are asked for again and again; empty for samples of another.
  virtual absl::StatusOr<ExplicitRows<RowId>> ForEvaluation(const SparseBatch& samples,
                                                            absl::Span<const int64_t> points) = 0;
};

}  // namespace dslide
