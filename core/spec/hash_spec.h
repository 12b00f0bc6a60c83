// The settings of a head's hash tables. Data only: what they do is in hash_family.h and
// hash_index.h.

#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace dslide {

enum class HashFamilyKind {
  kSimHash,  // signs of structured random projections: three rounds of (random signs,
             // Walsh-Hadamard)
  kDwta,     // densified winner-take-all (Chen and Shrivastava 2018)
};

struct HashSpec {
  HashFamilyKind family = HashFamilyKind::kSimHash;
  // K: codes concatenated into one table address. Raising it makes buckets smaller and purer.
  // 0 chooses it from the number of rows. SimHash range [1, 24]; DWTA: codes x bits <= 24.
  int64_t codes_per_table = 0;
  // L: tables. Raising it finds more true rows; costs 4 bytes a row (8 with sketches) and a
  // lookup a sample, each. 0 chooses it. Range [1, 256].
  int64_t num_tables = 0;
  // DWTA only: coordinates compared per code. A power of two in [2, 256].
  int64_t bin_size = 8;
  // Steps between builds of the tables (only rows touched since the last build are hashed again).
  // 0 chooses it from the number of rows. Range [1, 1000000].
  int64_t rebuild_every_steps = 0;
  // At most this many ids are read from one bucket, from a deterministic start. Range [1, 65536].
  int64_t bucket_read_cap = 4096;
  // Of the rows read, this many for each of the head's active rows are ranked by all their codes:
  // those whose sketches, at least 32 code bits kept beside each id, are most like the query's
  // (for DWTA, too, bits and not codes are compared). Lowering it makes selections cheaper and
  // coarser. 0 ranks all rows and keeps no sketches, which take 4 bytes a row and table. Range
  // [0, 1000].
  int64_t ranked_per_active = 0;
  // Of the L tables, the first so many are kept and searched; the codes of the others only rank
  // what was found. Lowering it saves 4 bytes a row and table (8 with sketches; twice, see
  // hash_index.h), their sorting and a lookup a sample, each, and finds fewer true rows. 0: all.
  // Range [0, num_tables].
  int64_t searched_tables = 0;
  // Rows that each sample of a training batch proposes to all of them, over all shards: then a
  // sample's active rows are the best, by all codes, of what any sample proposed or has as a label.
  // Far fewer distinct rows are touched by a batch, and each by more samples. 0: samples select
  // alone. Range [0, 65536].
  int64_t proposed_per_sample = 0;
  // Subtract the mean row before hashing. The softmax does not change when one vector is added to
  // every row, but the angles do: see docs/understand/hashing.md.
  bool center = true;
  // Append the coordinate sqrt(max(0, M^2 - |w|^2)) to each row (0 to the query), with M the
  // `norm_quantile` of the row norms, so that the smallest angle is the largest inner product.
  bool norm_coordinate = true;
  double norm_quantile = 0.95;  // Range (0, 1].
  // All random signs, permutations and bins follow from it.
  uint64_t seed = 0x5eed;

  // Names the field, the value and the range. What 0 chooses may be 0 here.
  absl::Status Validate() const;

  friend bool operator==(const HashSpec&, const HashSpec&) = default;
};

// The tables that are searched: all where the spec leaves it open.
int64_t SearchedTables(const HashSpec& spec);

// Bits of a fingerprint: codes_per_table (not 0) codes of one bit, for DWTA of log2(bin_size) bits.
int64_t FingerprintBits(const HashSpec& spec);

// The settings used for a table of `rows` rows: `spec` with codes_per_table, num_tables and
// rebuild_every_steps chosen where they are 0. The choices come from a sweep:
// docs/understand/hashing.md.
//   rows : of the whole table, not of one shard: the fingerprint of a query must not depend on the
//          number of shards.
HashSpec ResolveHashSpec(const HashSpec& spec, int64_t rows);

}  // namespace dslide
