#include "core/lsh/candidates.h"

#include <algorithm>
#include <limits>

#include "core/base/counter_rng.h"
#include "core/math/kernels.h"
#include "core/math/kernels_signature.h"

namespace dslide {
namespace {

constexpr uint16_t kSignatureBits = 32;

// Marks of the present call, which is a multiple of kCallStep: what is smaller is of older calls. A
// byte a row: that all marks are cleared every 63 calls costs less than marks that leave a cache.
constexpr uint8_t kCallStep = 4;
constexpr uint8_t kSeen = 0;
constexpr uint8_t kLabel = 1;
constexpr uint8_t kFound = 2;  // a flag: met once more; of a label: found by hashing

// Begins a call: no row is marked but the labels.
void MarkLabels(absl::Span<const LocalRow> labels, int64_t num_rows, SelectScratch& scratch) {
  if (static_cast<int64_t>(scratch.marks.size()) < num_rows) scratch.marks.resize(num_rows, 0);
  constexpr uint8_t kLastCall = std::numeric_limits<uint8_t>::max() / kCallStep * kCallStep;
  if (scratch.call == kLastCall) {
    std::fill(scratch.marks.begin(), scratch.marks.end(), 0);
    scratch.call = 0;
  }
  scratch.call += kCallStep;
  for (const LocalRow label : labels) scratch.marks[label.value()] = scratch.call + kLabel;
}

// Finds the buckets, makes room for what is read of them in all lists of rows, and returns how many
// that is.
int64_t FindBuckets(const CandidateSource& source, absl::Span<const uint32_t> fingerprints,
                    SelectScratch& scratch) {
  const auto num_tables = static_cast<int64_t>(fingerprints.size());
  for (int64_t t = 0; t < num_tables; ++t) source.tables.PrefetchBucket(t, fingerprints[t]);
  scratch.buckets.resize(num_tables);
  int64_t reads = 0;
  for (int64_t t = 0; t < num_tables; ++t) {
    const absl::Span<const LocalRow> bucket =
        source.tables.Bucket(source.codes, t, fingerprints[t]);
    scratch.buckets[t] = bucket;
    __builtin_prefetch(bucket.data());
    if (source.ranked_per_active > 0) __builtin_prefetch(source.tables.Signatures(bucket));
    reads += std::min(static_cast<int64_t>(bucket.size()), source.read_cap);
  }
  if (static_cast<int64_t>(scratch.read.size()) < reads) {
    scratch.read.resize(reads);
    scratch.equal_bits.resize(reads);
    scratch.seen.resize(reads);
    scratch.above.resize(reads);
    scratch.ties.resize(reads);
  }
  return reads;
}

// Calls visit(table, rows) with what is read of each bucket, in one part or two.
template <typename Visit>
void ForEachRead(const CandidateSource& source, absl::Span<const uint32_t> fingerprints,
                 const SelectScratch& scratch, const Visit& visit) {
  for (size_t t = 0; t < fingerprints.size(); ++t) {
    const absl::Span<const LocalRow> bucket = scratch.buckets[t];
    const auto size = static_cast<int64_t>(bucket.size());
    if (size <= source.read_cap) {
      visit(t, bucket);
      continue;
    }
    const auto start = static_cast<int64_t>(
        CounterBits(DeriveKey(source.start_key, t), fingerprints[t]) % static_cast<uint64_t>(size));
    const int64_t before_wrap = std::min(source.read_cap, size - start);
    visit(t, bucket.subspan(start, before_wrap));
    visit(t, bucket.subspan(0, source.read_cap - before_wrap));
  }
}

// Writes those of `rows` that are new to this call to `next`, and returns the end of it. Labels are
// only marked as found.
LocalRow* TakeNew(absl::Span<const LocalRow> rows, SelectScratch& scratch, LocalRow* next) {
  uint8_t* const marks = scratch.marks.data();
  const uint8_t call = scratch.call;
  for (const LocalRow row : rows) {  // without branches: half of them would be mispredicted
    const uint8_t mark = marks[row.value()];
    const bool is_new = mark < call;
    *next = row;
    next += is_new;
    marks[row.value()] = is_new ? call + kSeen : mark | kFound;
  }
  return next;
}

// Reads the buckets and their signatures to scratch.read and scratch.equal_bits.
void ReadSignatures(const CandidateSource& source, absl::Span<const uint32_t> fingerprints,
                    SelectScratch& scratch) {
  LocalRow* read = scratch.read.data();
  uint16_t* equal_bits = scratch.equal_bits.data();
  ForEachRead(source, fingerprints, scratch, [&](size_t t, absl::Span<const LocalRow> rows) {
    const auto count = static_cast<int64_t>(rows.size());
    CountEqualBits(source.tables.Signatures(rows), count,
                   source.codes.SignatureFor(static_cast<int64_t>(t))(scratch.query.data()),
                   equal_bits);
    read = std::copy(rows.begin(), rows.end(), read);
    equal_bits += count;
  });
}

// The highest likeness that `wanted` of the `reads` rows read reach, repetitions counted; 0 when
// there are fewer.
uint16_t HighestReached(const SelectScratch& scratch, int64_t reads, int64_t wanted) {
  uint16_t low = 0;
  uint16_t high = kSignatureBits;
  while (low < high) {
    const auto middle = static_cast<uint16_t>((low + high + 1) / 2);
    if (CountAtLeast(scratch.equal_bits.data(), reads, middle) >= wanted) {
      low = middle;
    } else {
      high = static_cast<uint16_t>(middle - 1);
    }
  }
  return low;
}

}  // namespace

int64_t CollectCandidates(const CandidateSource& source, absl::Span<const uint32_t> fingerprints,
                          absl::Span<const LocalRow> labels, int64_t budget,
                          SelectScratch& scratch) {
  scratch.query.resize(source.codes.words_per_row());
  source.codes.Pack(fingerprints.data(), scratch.query.data());
  MarkLabels(labels, source.tables.num_rows(), scratch);
  const int64_t reads = FindBuckets(source, fingerprints, scratch);
  const int64_t wanted = source.ranked_per_active * std::max<int64_t>(budget, 0);
  LocalRow* const begin = scratch.seen.data();
  LocalRow* end = begin;
  if (reads <= wanted || source.ranked_per_active == 0) {
    ForEachRead(source, fingerprints, scratch, [&](size_t, absl::Span<const LocalRow> rows) {
      end = TakeNew(rows, scratch, end);
    });
    return end - begin;
  }
  ReadSignatures(source, fingerprints, scratch);
  const auto take = [&](absl::Span<const LocalRow> rows) {
    LocalRow* const first = end;
    end = TakeNew(rows, scratch, end);
    source.codes.Prefetch({first, static_cast<size_t>(end - first)});
  };
  const auto split = [&](uint16_t likeness) {
    return SplitByCount(Numbers(scratch.read.data()), scratch.equal_bits.data(), reads, likeness,
                        Numbers(scratch.above.data()), Numbers(scratch.ties.data()));
  };
  uint16_t likeness = HighestReached(scratch, reads, wanted);
  SplitSizes sizes = split(likeness);
  take({scratch.above.data(), static_cast<size_t>(sizes.above)});
  take({scratch.ties.data(), static_cast<size_t>(sizes.equal)});
  // Rows that were read in several tables count once: go on until there are enough.
  while (end - begin < wanted && likeness > 0) {
    sizes = split(--likeness);
    take({scratch.ties.data(), static_cast<size_t>(sizes.equal)});
  }
  return end - begin;
}

bool WasFound(LocalRow label, const SelectScratch& scratch) {
  return (scratch.marks[label.value()] & kFound) != 0;
}

}  // namespace dslide
