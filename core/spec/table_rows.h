// What follows from how many rows a table has, and for how many it was made.

#pragma once

#include <cstdint>

#include "core/spec/model_spec.h"

namespace dslide {

// The rows for which a table was made.
inline int64_t BaseRows(const TableSpec& table) {
  return table.base_rows > 0 ? table.base_rows : table.rows;
}

// Features that an embedding has rows for.
inline int64_t NumFeatures(const TableSpec& embedding) {
  return embedding.rows - (embedding.bias_row ? 1 : 0);
}

// And had when it was made.
inline int64_t BaseFeatures(const TableSpec& embedding) {
  return BaseRows(embedding) - (embedding.bias_row ? 1 : 0);
}

// Where the bias row of an embedding is that has one. It stays when the table grows: features from
// this number on have the row after their own number.
inline int64_t BiasRow(const TableSpec& embedding) { return BaseRows(embedding) - 1; }

// Gives the tables of label trees and linear rows, where there are some, the rows that follow from
// the labels and the depth of the trees.
void FillTreeRows(ModelSpec& spec);

}  // namespace dslide
