// Cuts requests into the parts of the shards, and puts the shards' answers together again.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/partition/slot_map.h"
#include "core/protocol/commands.h"
#include "core/protocol/explicit_rows.h"

namespace dslide {

// Where each of the wanted rows is found.
struct RowSlices {
  std::vector<std::vector<RowId>> rows;  // by shard: strictly ascending
  // [wanted]: rows[shard_of[i]][index_of[i]] == wanted[i].
  std::vector<uint32_t> shard_of;
  std::vector<uint32_t> index_of;
};

// `wanted` may be in any order and name a row twice.
RowSlices SliceRows(const SlotMap& slots, absl::Span<const RowId> wanted);

// Ragged rows of one shard: sample i has [offsets[i], offsets[i + 1]).
struct RaggedSlice {
  std::vector<uint32_t> offsets = {0};  // [batch + 1]
  std::vector<RowId> rows;              // in the order of the input
  std::vector<float> values;            // beside rows, or empty
};

// Cuts a ragged array of rows by owner and keeps the order within each sample.
//   offsets : [batch + 1], from 0
//   rows    : [offsets.back()]
//   values  : [offsets.back()] or empty
std::vector<RaggedSlice> SliceRagged(const SlotMap& slots, absl::Span<const int64_t> offsets,
                                     absl::Span<const RowId> rows, absl::Span<const float> values);

// Cuts explicit rows by owner and keeps the order within each sample. Parts have offsets where
// `rows` has.
// Errors: InvalidArgument when the sizes do not agree, or rows do not ascend within a sample.
absl::StatusOr<std::vector<ExplicitRows<RowId>>> SliceExplicit(const SlotMap& slots,
                                                               const ExplicitRows<RowId>& rows);

// Cuts a block of rows by owner. Ids may come in any order; equal ids are added up when
// `sum_duplicates`, else refused (InvalidArgument naming the row). Parts are strictly ascending.
// Errors: InvalidArgument when the block's sizes do not agree.
absl::StatusOr<std::vector<RowBlock>> SliceBlock(const SlotMap& slots, const RowBlock& block,
                                                 bool sum_duplicates);

// For gathers that put rows where they are wanted. By shard, for each of its rows: the first
// position among the wanted ones.
std::vector<std::vector<uint32_t>> FirstPlaces(const RowSlices& slices);

// Completes a block whose rows are at their first places: those that were wanted twice.
void CopyRepeats(const RowSlices& slices, absl::Span<const std::vector<uint32_t>> first_places,
                 RowBlock& block);

// The best k of all shards for each query: by falling logit, ties by smaller id.
// Errors: Internal when a part is not [batch, k'] for its own k'.
absl::StatusOr<TopKReply> MergeTopK(absl::Span<const TopKReply> parts, int64_t batch, int64_t k);

}  // namespace dslide
