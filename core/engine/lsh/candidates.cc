#include "core/engine/lsh/candidates.h"

#include <algorithm>

#include "core/base/counter_rng.h"
#include "core/base/prefetch.h"
#include "core/engine/math/kernels.h"
#include "core/engine/math/kernels_sketch.h"

namespace dslide {
namespace {

// Rows that are a little less alike than those that the query before needed are read, too: enough
// rows are among them for most queries, and those that are not are not looked at a second time.
constexpr int kSpareBits = 1;
constexpr int kMoreBits = 2;

// Two bits a row, all 0 between calls: few enough to stay in the second level of the caches.
constexpr uint32_t kRowsPerWord = 16;
constexpr uint32_t kFound = 1;
constexpr uint32_t kLabel = 2;

uint32_t& WordOf(LocalRow row, SelectScratch& scratch) {
  return scratch.marks[row.value() / kRowsPerWord];
}
uint32_t ShiftOf(LocalRow row) { return 2 * (row.value() % kRowsPerWord); }

void MarkLabels(absl::Span<const LocalRow> labels, int64_t num_rows, SelectScratch& scratch) {
  const auto words = static_cast<size_t>(num_rows / kRowsPerWord + 1);
  if (scratch.marks.size() < words) scratch.marks.resize(words, 0);
  for (const LocalRow label : labels) WordOf(label, scratch) |= kLabel << ShiftOf(label);
}

// Whole words: the rows beside one of the call's are none of it, or are cleared anyway.
void ClearMarks(absl::Span<const LocalRow> rows, SelectScratch& scratch) {
  for (const LocalRow row : rows) WordOf(row, scratch) = 0;
}

// Asks for the first lines of what will be read: enough until the processor has noticed that a run
// of memory has begun and asks for the rest by itself.
void Prefetch(const BucketRows& rows) { PrefetchLines(rows.memory(), 24 * kCacheLineBytes); }

// Makes room for `rows` of them in all lists of rows.
void MakeRoom(int64_t rows, SelectScratch& scratch, SelectScratch::Query& query) {
  if (static_cast<int64_t>(query.seen.size()) < rows) query.seen.resize(rows);
  if (static_cast<int64_t>(scratch.read.size()) >= rows) return;
  scratch.read.resize(rows);
  scratch.equal_bits.resize(rows);
  scratch.above.resize(rows);
  scratch.ties.resize(rows);
}

// Writes those of `rows` that are new to this call to `next`, and returns the end of it. Labels are
// only marked as found.
LocalRow* TakeNew(absl::Span<const LocalRow> rows, SelectScratch& scratch, LocalRow* next) {
  constexpr size_t kMarksAhead = 32;
  uint32_t* const marks = scratch.marks.data();
  for (size_t i = 0; i < rows.size(); ++i) {  // half of all branches would be mispredicted
    if (i + kMarksAhead < rows.size()) {
      __builtin_prefetch(marks + rows[i + kMarksAhead].value() / kRowsPerWord, 1);
    }
    const LocalRow row = rows[i];
    uint32_t& word = marks[row.value() / kRowsPerWord];
    const uint32_t shift = ShiftOf(row);
    *next = row;
    next += (word >> shift & (kFound | kLabel)) == 0;
    word |= kFound << shift;
  }
  return next;
}

// Takes all rows that were found, whatever their likeness.
LocalRow* TakeAll(SelectScratch& scratch, SelectScratch::Query& query) {
  LocalRow* end = query.seen.data();
  for (const SelectScratch::Read& read : query.reads) {
    absl::Span<const LocalRow> rows(read.rows.rows(), static_cast<size_t>(read.rows.size()));
    if (read.rows.signed_rows() != nullptr) {
      for (int64_t i = 0; i < read.rows.size(); ++i) scratch.read[i] = read.rows[i];
      rows = {scratch.read.data(), rows.size()};
    }
    end = TakeNew(rows, scratch, end);
  }
  return end;
}

// Reads the rows of the buckets that are at least so alike to scratch.read and scratch.equal_bits,
// and returns how many they are.
int64_t ReadBuckets(const SelectScratch::Query& query, SignedRowLayout layout, uint8_t likeness,
                    SelectScratch& scratch) {
  int64_t count = 0;
  for (const SelectScratch::Read& read : query.reads) {
    count +=
        ReadNear(read.rows.signed_rows(), read.rows.size(), read.sketch, layout.row_bits(),
                 likeness, Numbers(scratch.read.data()) + count, scratch.equal_bits.data() + count);
  }
  return count;
}

// Takes the most alike of the `rows_read` rows, at least `wanted` of them if there are as many.
LocalRow* TakeMostAlike(const CandidateSource& source, int64_t wanted, SelectScratch& scratch,
                        SelectScratch::Query& query) {
  const SignedRowLayout layout = source.tables.layout();
  const auto all_bits = static_cast<uint8_t>(layout.sketch_bits());
  // What was read is all that has this likeness or more.
  uint8_t read = std::min(scratch.expected_likeness, all_bits);
  int64_t rows_read = ReadBuckets(query, layout, read, scratch);
  const auto read_more = [&] {
    read = static_cast<uint8_t>(std::max(0, read - kMoreBits));
    rows_read = ReadBuckets(query, layout, read, scratch);
  };
  while (rows_read < wanted && read > 0) read_more();
  LocalRow* const begin = query.seen.data();
  LocalRow* end = begin;
  const auto take = [&](absl::Span<const LocalRow> rows) {
    LocalRow* const first = end;
    end = TakeNew(rows, scratch, end);
    source.codes.Prefetch({first, static_cast<size_t>(end - first)});
  };
  const auto split = [&](uint8_t likeness) {
    return SplitByCount(Numbers(scratch.read.data()), scratch.equal_bits.data(), rows_read,
                        likeness, Numbers(scratch.above.data()), Numbers(scratch.ties.data()));
  };
  // Rows that were read in several tables count each time.
  uint8_t likeness =
      HighestReached(scratch.equal_bits.data(), rows_read, wanted, read, all_bits, read);
  SplitSizes sizes = split(likeness);
  take({scratch.above.data(), static_cast<size_t>(sizes.above)});
  take({scratch.ties.data(), static_cast<size_t>(sizes.equal)});
  // Rows that were read in several tables count once: go on until there are enough.
  while (end - begin < wanted && likeness > 0) {
    if (likeness == read) read_more();
    sizes = split(--likeness);
    take({scratch.ties.data(), static_cast<size_t>(sizes.equal)});
  }
  scratch.expected_likeness = static_cast<uint8_t>(std::max(0, likeness - kSpareBits));
  return end;
}

}  // namespace

void FindReads(const CandidateSource& source, absl::Span<const uint32_t> fingerprints,
               int64_t most_tables, SelectScratch::Query& query) {
  const int64_t all_tables = source.tables.num_tables();
  const int64_t num_tables = most_tables == 0 ? all_tables : std::min(most_tables, all_tables);
  for (int64_t t = 0; t < num_tables; ++t) source.tables.PrefetchBucket(t, fingerprints[t]);
  query.codes.resize(source.codes.words_per_row());
  source.codes.Pack(fingerprints.data(), query.codes.data());
  query.reads.clear();
  query.rows_read = 0;
  for (int64_t t = 0; t < num_tables; ++t) {
    const BucketRows bucket = source.tables.Bucket(source.codes, t, fingerprints[t]);
    const uint64_t sketch =
        source.tables.layout().Pack(LocalRow(0), source.codes.SketchFor(t)(query.codes.data()));
    const auto read = [&](int64_t first, int64_t size) {
      if (size == 0) return;
      query.reads.push_back({bucket.Part(first, size), sketch});
      Prefetch(query.reads.back().rows);
    };
    if (bucket.size() <= source.read_cap) {
      query.rows_read += bucket.size();
      read(0, bucket.size());
      continue;
    }
    query.rows_read += source.read_cap;
    const auto start =
        static_cast<int64_t>(CounterBits(DeriveKey(source.start_key, t), fingerprints[t]) %
                             static_cast<uint64_t>(bucket.size()));
    const int64_t before_wrap = std::min(source.read_cap, bucket.size() - start);
    read(start, before_wrap);
    read(0, source.read_cap - before_wrap);
  }
}

void CollectCandidates(const CandidateSource& source, absl::Span<const LocalRow> labels,
                       int64_t budget, SelectScratch& scratch, SelectScratch::Query& query) {
  MarkLabels(labels, source.tables.num_rows(), scratch);
  MakeRoom(query.rows_read, scratch, query);
  const int64_t wanted = source.ranked_per_active * std::max<int64_t>(budget, 0);
  const bool all = query.rows_read <= wanted || source.ranked_per_active == 0;
  LocalRow* const end =
      all ? TakeAll(scratch, query) : TakeMostAlike(source, wanted, scratch, query);
  query.num_seen = end - query.seen.data();
  query.label_found.clear();
  for (const LocalRow label : labels) {
    query.label_found.push_back(WordOf(label, scratch) >> ShiftOf(label) & kFound);
  }
  ClearMarks({query.seen.data(), static_cast<size_t>(query.num_seen)}, scratch);
  ClearMarks(labels, scratch);
}

}  // namespace dslide
