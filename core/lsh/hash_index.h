// The hash tables of one shard's part of a head: built from its rows, asked for candidates.
//
// Layout per table: ids counting-sorted by fingerprint plus bucket offsets: 4 bytes a row and
// table, and 2 or 4 more for the row's fingerprint, which lets a build hash changed rows only. All
// codes of a row once more, packed, to rank candidates by: about K L bits a row.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/base/parallel.h"
#include "core/lsh/hash_family.h"
#include "core/lsh/hash_spec.h"

namespace dslide {

// Floats that a reader of rows brings for one row: `dim` rounded up to 64 bytes.
constexpr int64_t RowScratchFloats(int64_t dim) { return (dim + 15) / 16 * 16; }

// What the index reads of a head's rows. Implemented by the row store.
class HashedRows {
 public:
  virtual ~HashedRows() = default;
  virtual int64_t num_rows() const = 0;
  virtual int64_t dim() const = 0;
  // [dim] floats, valid until the rows or the scratch change: the row itself where it is stored in
  // f32, or else `scratch`, filled. scratch: [RowScratchFloats(dim())].
  virtual const float* ReadWeights(LocalRow row, float* scratch) const = 0;
  virtual float Bias(LocalRow row) const = 0;
};

// What one sample touches on this shard.
struct Selection {
  // Sorted and unique. The sample's labels are always in it.
  std::vector<LocalRow> active;
  // The labels that hashing alone would not have put into `active` under the same budget: found in
  // no bucket, or ranked too low. Sorted; a subset of `active`. Usually very short.
  std::vector<LocalRow> missed_labels;

  // Whether `row` is active because hashing found it. O(log active).
  bool FoundByHashing(LocalRow row) const;
};

// Scratch memory of one thread for Select(); grows to num_rows once. Not thread-safe. One scratch
// may serve several indexes in turn.
class SelectScratch {
 public:
  std::vector<uint16_t> agreements;  // [>= num_rows], zero between calls
  std::vector<uint32_t> counts;      // [codes + 1], rows by agreements
  std::vector<uint64_t> query;       // the query's codes, packed
  std::vector<LocalRow> seen;        // room for the rows with agreements > 0
  std::vector<LocalRow> ties;        // room for the rows with just as many agreements as needed
};

// Bytes that an index holds, by what for.
struct IndexBytes {
  int64_t tables = 0;  // ids, fingerprints and bucket offsets
  int64_t codes = 0;   // the rows' packed codes
};

// Deterministic: equal rows, dirty sets and build points give equal tables, for any thread count.
// Thread safety: Select() is concurrent with itself; the caller excludes Build().
class HashIndex {
 public:
  // Errors: those of HashFamily::Create.
  static absl::StatusOr<std::unique_ptr<HashIndex>> Create(const HashSpec& spec, int64_t dim);
  ~HashIndex();

  const HashFamily& family() const;

  // Makes the tables equal to what a fresh build over `rows` gives with the current mean and norm
  // bound, hashing only what changed.
  //   dirty : rows changed since the last build, sorted and unique. Ignored on the first build.
  // The mean row and the norm bound M are taken anew from all rows at each build in which
  // `refresh_center` is set (and at the first, and when the number of rows changed): then every row
  // is hashed again. Until then the old ones serve, so tables also depend on when the last refresh
  // was: copies that must agree (a restored shard) refresh at the same point.
  // Cost: hashing of the dirty rows plus two passes over num_rows * num_tables fingerprints.
  void Build(const HashedRows& rows, absl::Span<const LocalRow> dirty, bool refresh_center,
             Parallelism parallelism);

  // True once Build() has run; before that Select() returns the labels alone.
  bool built() const;

  // Returns the rows one sample touches: its labels, then candidates up to `budget` rows in all.
  // Labels are never cut. Candidates are the rows that share a bucket with the query in any table,
  // ranked by how many of all K L codes are equal (ties: the smaller row first): their angle to the
  // query, as finely as the codes know it.
  //   fingerprints : [num_tables] of the sample's query; one of too many bits finds nothing.
  //   labels       : sorted and unique, below num_rows once built.
  // Of a bucket with more than `bucket_read_cap` rows, that many are read, cyclically from a start
  // that depends on the seed, the table and the fingerprint. Cost: proportional to the rows read.
  void Select(absl::Span<const uint32_t> fingerprints, absl::Span<const LocalRow> labels,
              int64_t budget, SelectScratch& scratch, Selection& selection) const;

  // The rows of one bucket, ascending; empty before the first build. Valid until the next Build().
  absl::Span<const LocalRow> Bucket(int64_t table, uint32_t fingerprint) const;

  // Bytes held by the tables and codes; BytesFor() the spec and rows once built.
  int64_t memory_bytes() const;
  // Requires spec.codes_per_table > 0.
  static IndexBytes BytesFor(const HashSpec& spec, int64_t num_rows);

 private:
  HashIndex();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dslide
