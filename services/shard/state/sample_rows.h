// The rows of a batch's samples as commands bring them: their shape, and their order in a table.

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/ids.h"

namespace dslide::shard {

// The shape that the decoder has checked already, for commands from elsewhere.
// Errors: InvalidArgument BAD_OFFSETS.
absl::Status CheckOffsets(const std::vector<uint32_t>& offsets, size_t total,
                          absl::string_view field);

// Rows strictly ascend within each sample: the decoder has checked it, for commands from elsewhere.
// Errors: InvalidArgument NOT_ASCENDING.
absl::Status CheckAscending(const std::vector<uint32_t>& offsets, const std::vector<RowId>& rows,
                            absl::string_view field);

// Sorts each sample's local rows, which are in the order of their global ids, and returns where
// each of them was: rows[i] was at [result[i]]. Tables want local order: it is that of memory.
std::vector<uint32_t> SortInSamples(absl::Span<const uint32_t> offsets,
                                    std::vector<LocalRow>& rows);

// values[i] of the result is values[origin[i]]; empty where `values` is.
std::vector<float> InOrderOf(const std::vector<uint32_t>& origin, const std::vector<float>& values);

}  // namespace dslide::shard
