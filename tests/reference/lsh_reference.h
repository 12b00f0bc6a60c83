// Hashing and candidate selection written as docs/understand/hashing.md states them, one row at a
// time and without any index: the oracle for core/lsh.

#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/spec/hash_spec.h"

namespace dslide::reference {

// A vector with its extras, as it is hashed.
struct HashVector {
  std::vector<float> values;
  float extra1 = 1.0f;  // queries: 1; rows: centred bias
  float extra2 = 0.0f;  // queries: 0; rows: norm coordinate
  bool is_query = true;
};

// [L] fingerprints, in the arithmetic and order that docs/understand/hashing.md fixes.
std::vector<uint32_t> Fingerprints(const HashSpec& spec, const HashVector& vector);

// [K * L] projections of SimHash in double, by explicit dense matrices H, D1, D2, D3: bit j of the
// fingerprints is the sign of entry j, up to float rounding.
std::vector<double> DenseSimHashProjections(const HashSpec& spec, const HashVector& vector);

// Rows minus their mean, with the extras, by the formulas in double.
//   rows : [count][dim]; biases : [count].
std::vector<HashVector> CenteredRows(const HashSpec& spec,
                                     const std::vector<std::vector<float>>& rows,
                                     const std::vector<float>& biases);

// The rows that have `fingerprint` in `table`, ascending.
//   row_fingerprints : [rows][L].
std::vector<LocalRow> RowsSharingABucket(const std::vector<std::vector<uint32_t>>& row_fingerprints,
                                         int64_t table, uint32_t fingerprint);

// The 64 bits of which those that fit stand beside a row in `table`, lowest first: of the tables
// whose fingerprints share a word of 64 bits with this one's, those after it; then the tables of
// the next word (after the last word the first); then zeros.
//   fingerprints : [L] of a row or a query.
std::vector<bool> Sketch(const HashSpec& spec, absl::Span<const uint32_t> fingerprints,
                         int64_t table);

// The rows that a selection ranks, labels among them: all that are read, or of more than
// ranked_per_active for each place of the budget those of the highest likenesses, until there are
// so many beside labels.
std::set<LocalRow> Candidates(const HashSpec& spec,
                              const std::vector<std::vector<uint32_t>>& row_fingerprints,
                              absl::Span<const uint32_t> query, absl::Span<const LocalRow> labels,
                              int64_t budget);

struct SelectedRows {
  std::vector<LocalRow> active;         // sorted
  std::vector<LocalRow> missed_labels;  // sorted
};

// HashIndex::Select by comparing all fingerprints, and sketches bit by bit, and sorting all rows.
SelectedRows Select(const HashSpec& spec,
                    const std::vector<std::vector<uint32_t>>& row_fingerprints,
                    absl::Span<const uint32_t> query, absl::Span<const LocalRow> labels,
                    int64_t budget);

// HashIndex::SelectTogether for rows of which all codes are compared, written as a sorted list.
//   queries : [batch] of [L]; labels : [batch], sorted.
std::vector<SelectedRows> SelectTogether(const HashSpec& spec,
                                         const std::vector<std::vector<uint32_t>>& row_fingerprints,
                                         const std::vector<std::vector<uint32_t>>& queries,
                                         const std::vector<std::vector<LocalRow>>& labels,
                                         int64_t budget);

}  // namespace dslide::reference
