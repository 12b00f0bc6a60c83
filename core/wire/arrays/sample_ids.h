// The ids that belong to the samples of a batch (features, labels) on the wire, in either form:
// offsets and ids of 4 bytes each, or packed: base-128 varints of each sample's number of ids, its
// first id, and for each further id the distance from the one before it, less 1. Ids of a sample
// lie close together when it has many, so most of them take one or two bytes.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/ids.h"

namespace dslide::wire {

struct SampleIds {
  std::vector<uint32_t> offsets;  // [batch + 1], ascending from 0
  std::vector<RowId> rows;        // [offsets.back()], strictly ascending within a sample
};

// The three fields of a message of which two or one are used.
struct SampleIdFields {
  absl::string_view message;  // "embed_forward", for errors; "" where fields have no prefix
  absl::string_view offsets_name, ids_name, packed_name;
  const std::string& offsets;
  const std::string& ids;
  const std::string& packed;
};

// Checks that exactly one form is used, all sizes, the order of the ids, and that there are at most
// `max_ids`, each below kMaxTableRows. Errors: InvalidArgument with a reason word, naming the
// field.
absl::StatusOr<SampleIds> DecodeSampleIds(const SampleIdFields& fields, int64_t batch,
                                          int64_t max_ids);

// `out` is overwritten. `offsets` and `rows` as in SampleIds.
void EncodePackedIds(absl::Span<const uint32_t> offsets, absl::Span<const RowId> rows,
                     std::string* out);

}  // namespace dslide::wire
