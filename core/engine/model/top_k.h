// The best rows of a head for given hidden vectors.
//
// Order: the larger logit first, of equal logits the smaller global row id. It is total, so that
// the answer does not depend on threads or on the order in which rows are looked at.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/base/parallel.h"
#include "core/engine/model/scanned_rows.h"
#include "core/engine/rows/row_reader.h"
#include "core/protocol/explicit_rows.h"
#include "core/protocol/head_answers.h"

namespace dslide {

// The k best of the rows offered to it, for one query. Not thread-safe.
class TopRows {
 public:
  explicit TopRows(int64_t k);

  // A logit below it cannot enter; -inf while there is room.
  float threshold() const { return threshold_; }
  void Offer(RowId row, float logit);
  // Offers all rows of `other`.
  void Merge(const TopRows& other);
  // Writes the rows, best first, and fills up to k with kNoRow and -inf. rows, logits: [k].
  void Write(RowId* rows, float* logits);

 private:
  struct Entry {
    float logit;
    RowId row;
    // A strict total order over rows.
    bool operator<(const Entry& other) const {
      return logit != other.logit ? logit > other.logit : row < other.row;
    }
  };

  const int64_t k_;
  float threshold_;
  std::vector<Entry> heap_;  // the worst is on top
};

// Rows that no answer may hold: [num_rows], 0 for the others; empty: there is none.
using LeftOutRows = absl::Span<const uint8_t>;

// Scans all rows. hidden: [batch, dim]. k >= 0. kept: what the reader reads, rounded before, which
// makes it faster and changes no bit of the answer; or null.
ScoredRows ExactTopK(const RowReader& reader, absl::Span<const float> hidden, int64_t batch,
                     int64_t k, Parallelism parallelism, LeftOutRows left_out = {},
                     const ScannedRows* kept = nullptr);

// Scores the rows of query q for it; `exact` is false. Their logits are those of the table plus the
// candidates' offsets; weights are not looked at.
ScoredRows CandidateTopK(const RowReader& reader, absl::Span<const float> hidden,
                         const ExplicitRows<LocalRow>& candidates, int64_t k,
                         Parallelism parallelism, LeftOutRows left_out = {});

}  // namespace dslide
