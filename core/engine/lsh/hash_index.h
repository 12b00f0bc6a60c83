// The hash tables of one shard's part of a head: built from its rows, asked for candidates.
//
// Layout per table: ids counting-sorted by fingerprint plus bucket offsets: 4 bytes a row and
// table, 8 with sketches, twice where the next tables are sorted while the present ones serve.
// All codes of a row, packed, to rank candidates by and to sort from: about K L bits a row.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/base/parallel.h"
#include "core/engine/lsh/candidate_pool.h"
#include "core/engine/lsh/hash_family.h"
#include "core/engine/lsh/index_state.h"
#include "core/engine/lsh/select_scratch.h"
#include "core/engine/lsh/selection.h"
#include "core/spec/hash_spec.h"
#include "core/system/stage_times.h"

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
  // A hint that the row will be read soon.
  virtual void Prefetch(LocalRow row) const {}
};

// Whether a build takes the mean row and the norm bound anew, and hashes every row again.
enum class Refresh {
  kNo,
  kIfMoved,  // when they have moved by more than kMovedTolerance of the norm bound
  kYes,
};

// Bytes that an index holds, by what for.
struct IndexBytes {
  int64_t tables = 0;  // ids, sketches and bucket offsets
  int64_t codes = 0;   // the rows' packed codes
};

// How evenly rows fall into buckets, estimated from some of them.
struct BucketLoad {
  int64_t rows_sampled = 0;
  // Rows in the bucket in which a row lies, itself included: mean over rows and tables.
  double rows_per_bucket = 0;
  // rows_per_bucket over what random fingerprints would give, 1 + (rows - 1) / 2^bits. 1: as even
  // as can be; large: few buckets hold many rows, which makes candidates many and alike. 0 without
  // rows.
  double skew = 0;
};

// Deterministic: equal rows, dirty sets and build points give equal tables, for any thread count.
// Thread safety: Select() is concurrent with itself; the caller excludes the builds.
class HashIndex {
 public:
  // Errors: those of HashFamily::Create.
  static absl::StatusOr<std::unique_ptr<HashIndex>> Create(const HashSpec& spec, int64_t dim);
  ~HashIndex();

  const HashFamily& family() const;

  // Begins a build: the tables that FinishBuild() will put in place are those of a fresh build over
  // `rows` as they are now, with the mean and norm bound in force. Hashes the dirty rows at once,
  // and sorts on a thread of its own. Meanwhile Select() finds rows by the old tables, and ranks
  // them by their new codes. Finishes a build under way first.
  //   dirty : rows changed since the last build, sorted and unique. Ignored on the first build.
  //   times : where the time goes; may be null; outlives the build.
  // On the first build, and when the number of rows changed, everything is taken anew. Otherwise
  // tables also depend on when the last refresh was: copies that must agree (a restored shard)
  // refresh at the same point.
  // Cost: hashing of the dirty rows, and two passes over num_rows * searched tables elsewhere.
  void StartBuild(const HashedRows& rows, absl::Span<const LocalRow> dirty, Refresh refresh,
                  Parallelism parallelism, StageTimes* times = nullptr);
  // Waits for the sorting and makes the new tables the present ones. Without a build under way
  // nothing happens.
  void FinishBuild();
  // Whether a build was started and not finished; and whether finishing it would take time.
  bool building() const;
  bool sorting() const;
  // Both, with all threads sorting.
  void Build(const HashedRows& rows, absl::Span<const LocalRow> dirty, Refresh refresh,
             Parallelism parallelism, StageTimes* times = nullptr);
  static constexpr float kMovedTolerance = 0.1f;

  // Rows that no query finds from now on: [rows.num_rows()], not 0 for those that are left out, or
  // empty. Sorts all tables at once, after the `changed` rows were hashed again; a build under way
  // is finished first. Requires built().
  void LeaveOut(std::vector<uint8_t> left_out, const HashedRows& rows,
                absl::Span<const LocalRow> changed, Parallelism parallelism);

  // What the present tables are made of. No build is under way, and one was finished.
  IndexState Save() const;
  // Instead of a first build: tables of `num_rows` rows equal to those of the index that was saved,
  // if the same rows are left out.
  // Later builds are equal, too, if the rows and dirty sets are.
  // Errors: InvalidArgument when the state has not this index's shape; nothing has changed then.
  absl::Status Restore(int64_t num_rows, IndexState saved, Parallelism parallelism,
                       StageTimes* times = nullptr);

  // Steps from the start of a build until its tables should serve, for a `spec` without open
  // settings: enough for the sorting, at most half of rebuild_every_steps; 0 for tables so small
  // that Build() is cheaper than a thread.
  static int64_t StepsUntilVisible(const HashSpec& spec, int64_t num_rows);

  // True once a build was finished; before that Select() returns the labels alone.
  bool built() const;

  // Finds the rows that each query touches: its labels, then candidates up to `budget` rows in all.
  // Labels are never cut. Candidates are the rows that share a bucket with the query in any table,
  // or, with `ranked_per_active`, those whose sketches are most alike
  // (core/engine/lsh/candidates.h), ranked by how many of all K L codes are equal (ties: the
  // smaller row first): their angle to the query, as finely as the codes know it.
  //   selections : [queries].
  // Of a bucket with more than `bucket_read_cap` rows, that many are read, cyclically from a start
  // that depends on the seed, the table and the fingerprint. Cost: proportional to the rows read; a
  // query among others costs less than one alone, because memory is asked for beforehand.
  void Select(absl::Span<const HashQuery> queries, int64_t budget, SelectScratch& scratch,
              absl::Span<Selection> selections) const;
  // The same for one.
  void Select(absl::Span<const uint32_t> fingerprints, absl::Span<const LocalRow> labels,
              int64_t budget, SelectScratch& scratch, Selection& selection) const {
    const HashQuery query{fingerprints, labels};
    Select({&query, 1}, budget, scratch, {&selection, 1});
  }

  // Select() on all threads.
  //   scratch : [parallelism.threads].
  void SelectEach(absl::Span<const HashQuery> queries, int64_t budget, Parallelism parallelism,
                  absl::Span<SelectScratch> scratch, absl::Span<Selection> selections) const;

  // Selects for the samples of a batch from candidates that they share: each proposes the
  // `proposals` rows (or as many as fill the budget together) that Select() finds for it without
  // labels, and gets its labels and the best of all proposals and all samples' labels, as
  // CandidatePool::Rank() says. What a sample gets depends on the others.
  //   scratch    : [parallelism.threads]
  //   selections : [queries].
  void SelectTogether(absl::Span<const HashQuery> queries, int64_t budget, int64_t proposals,
                      Parallelism parallelism, absl::Span<SelectScratch> scratch,
                      CandidatePool& pool, absl::Span<Selection> selections) const;

  // [dim + 1] of what rows are hashed about, the last is the bias's; empty before the first build.
  absl::Span<const float> mean() const;
  // How often rows have been hashed: a number that changes when codes do.
  int64_t hashings() const;

  // The rows of one bucket, ascending; none before the first build, and of tables that are not
  // searched. A copy, to look at.
  std::vector<LocalRow> Bucket(int64_t table, uint32_t fingerprint) const;

  // Looks at `sample` rows, evenly spread over all, or at all of them. Changes nothing; all 0
  // before the first build. Cost: one bucket looked up per sampled row and table, about 100 ns
  // each.
  BucketLoad MeasureBuckets(int64_t sample) const;

  // Bytes held by the tables and codes; BytesFor() the spec and rows once built.
  int64_t memory_bytes() const;
  // Requires spec.codes_per_table > 0.
  static IndexBytes BytesFor(const HashSpec& spec, int64_t num_rows);

 private:
  HashIndex();
  struct State;
  // Room for the codes and tables of so many rows.
  void MakeRoom(int64_t num_rows);
  // The hashing part of a build. False when nothing has changed.
  bool Rehash(const HashedRows& rows, absl::Span<const LocalRow> dirty, Refresh refresh,
              Parallelism parallelism, StageTimes* times);

  std::unique_ptr<State> state_;
};

}  // namespace dslide
