// Rows that a client names for each sample of a batch, found by a retriever of its own.

#pragma once

#include <cstdint>
#include <vector>

namespace dslide {

// `Id` is RowId in commands, LocalRow in tables.
template <typename Id>
struct ExplicitRows {
  std::vector<uint32_t> offsets = {};     // [batch + 1], ascending from 0; empty: no rows are named
  std::vector<Id> rows = {};              // strictly ascending within a sample
  std::vector<float> logit_offsets = {};  // [rows], added to the rows' logits; empty: all 0
  // [rows]: so many rows of the table does each stand for, itself included; empty: all 1. 0: it was
  // left out, and others stand for it.
  std::vector<float> weights = {};

  bool empty() const { return offsets.empty(); }
};

// A weight is at most this: twice the rows of the largest table.
inline constexpr float kMaxExplicitWeight = 4294967296.0f;

}  // namespace dslide
