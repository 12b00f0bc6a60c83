// Which of the collected candidates a query gets. Internal to core/lsh.

#pragma once

#include <cstdint>

#include "core/engine/lsh/row_codes.h"
#include "core/engine/lsh/select_scratch.h"
#include "core/engine/lsh/selection.h"

namespace dslide {

// The last stage of a query: ranks what CollectCandidates() has put to query.seen by how many codes
// are the query's (ties: the smaller row first), and appends the best to the selection, whose
// active rows are `wanted`'s labels so far, up to `budget` rows in all. Judges the labels. Draws
// candidates where that is wanted (HashQuery::drawn). Overwrites query.seen.
void RankCandidates(const RowCodes& codes, const HashQuery& wanted, int64_t budget,
                    SelectScratch& scratch, SelectScratch::Query& query, Selection& selection);

}  // namespace dslide
