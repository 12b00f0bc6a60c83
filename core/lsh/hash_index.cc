#include "core/lsh/hash_index.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "core/base/counter_rng.h"
#include "core/base/status_macros.h"
#include "core/lsh/hash_tables.h"
#include "core/lsh/row_center.h"
#include "core/lsh/row_codes.h"
#include "core/lsh/row_order.h"

namespace dslide {
namespace {

constexpr uint64_t kBucketStartPart = 3;
constexpr int64_t kMaxTables = 256;
// Rows hashed in one go: a few groups of lanes, small enough for the L1 and L2 caches.
constexpr int64_t kRowsPerChunk = 64;

// `rows` is sorted. A row beyond the index would be written outside of its arrays.
void DieUnlessBelow(const char* what, absl::Span<const LocalRow> rows, int64_t num_rows) {
  if (rows.empty() || rows.back().value() < num_rows) return;
  std::fprintf(stderr, "HashIndex: %s row %u, but the index has %lld rows\n", what,
               rows.back().value(), static_cast<long long>(num_rows));
  std::abort();
}

// How far down the ranking a budget reaches: all rows with more than `agreements` equal codes, and
// the `ties` smallest rows of those with exactly as many.
struct Cutoff {
  int64_t agreements = 0;
  int64_t ties = 0;
};

// `counts[a]` rows have `a` agreements; a = 0 is not counted.
Cutoff FindCutoff(const std::vector<uint32_t>& counts, int64_t budget) {
  int64_t left = budget;
  for (int64_t a = static_cast<int64_t>(counts.size()) - 1; a > 0; --a) {
    if (counts[a] >= left) return {a, left};
    left -= counts[a];
  }
  return {};
}

// Rows that share a bucket with the query, once each, in an order of no meaning; their entries of
// `agreements` become 1. Returns how many.
int64_t CollectRows(const HashTables& tables, uint64_t start_key, int64_t read_cap,
                    absl::Span<const uint32_t> fingerprints, SelectScratch& scratch) {
  const auto num_tables = static_cast<int64_t>(fingerprints.size());
  for (int64_t t = 0; t < num_tables; ++t) tables.PrefetchBucket(t, fingerprints[t]);
  std::array<absl::Span<const LocalRow>, kMaxTables> buckets;
  int64_t reads = 0;
  for (int64_t t = 0; t < num_tables; ++t) {
    buckets[t] = tables.Bucket(t, fingerprints[t]);
    __builtin_prefetch(buckets[t].data());
    reads += std::min(static_cast<int64_t>(buckets[t].size()), read_cap);
  }
  if (static_cast<int64_t>(scratch.seen.size()) < reads) scratch.seen.resize(reads);
  if (static_cast<int64_t>(scratch.agreements.size()) < tables.num_rows()) {
    scratch.agreements.resize(tables.num_rows(), 0);
  }
  uint16_t* agreements = scratch.agreements.data();
  LocalRow* next = scratch.seen.data();
  const auto collect = [&](absl::Span<const LocalRow> ids) {
    for (const LocalRow row : ids) {  // without branches: half of them would be mispredicted
      *next = row;
      next += agreements[row.value()] == 0;
      agreements[row.value()] = 1;
    }
  };
  for (int64_t t = 0; t < num_tables; ++t) {
    const absl::Span<const LocalRow> bucket = buckets[t];
    const auto size = static_cast<int64_t>(bucket.size());
    if (size <= read_cap) {
      collect(bucket);
      continue;
    }
    const auto start = static_cast<int64_t>(CounterBits(DeriveKey(start_key, t), fingerprints[t]) %
                                            static_cast<uint64_t>(size));
    const int64_t before_wrap = std::min(read_cap, size - start);
    collect(bucket.subspan(start, before_wrap));
    collect(bucket.subspan(0, read_cap - before_wrap));
  }
  return next - scratch.seen.data();
}

// Writes how many codes each of `seen` shares with the query to `agreements`, and how many rows
// have each number to `counts`. A row that shares a bucket shares that table's codes: never 0.
void CountAgreements(const RowCodes& codes, absl::Span<const uint32_t> fingerprints,
                     absl::Span<const LocalRow> seen, SelectScratch& scratch) {
  scratch.query.resize(codes.words_per_row());
  codes.Pack(fingerprints.data(), scratch.query.data());
  codes.CountEqual(seen, scratch.query.data(), scratch.agreements.data());
  scratch.counts.assign(codes.num_codes() + 1, 0);
  for (const LocalRow row : seen) ++scratch.counts[scratch.agreements[row.value()]];
}

// Whether `row` survives `cutoff` among `seen`.
bool Survives(LocalRow row, const Cutoff& cutoff, absl::Span<const LocalRow> seen,
              const std::vector<uint16_t>& agreements) {
  const int64_t own = agreements[row.value()];
  if (own == 0 || own < cutoff.agreements) return false;
  if (own > cutoff.agreements) return true;
  int64_t ahead = 0;
  for (const LocalRow other : seen) {
    ahead += agreements[other.value()] == own && other < row;
  }
  return ahead < cutoff.ties;
}

// Appends the rows of `seen` above the cutoff, and clears their agreements.
// Overwrites `seen`.
void TakeBest(const Cutoff& cutoff, absl::Span<const LocalRow> seen, int64_t num_rows,
              SelectScratch& scratch, std::vector<LocalRow>& active) {
  uint16_t* agreements = scratch.agreements.data();
  const auto kept = active.size();
  active.resize(kept + seen.size());
  if (scratch.ties.size() < seen.size()) scratch.ties.resize(seen.size());
  LocalRow* above = active.data() + kept;
  LocalRow* equal = scratch.ties.data();
  for (const LocalRow row : seen) {
    const int64_t own = agreements[row.value()];
    agreements[row.value()] = 0;
    *above = row;
    above += own > cutoff.agreements;
    *equal = row;
    equal += own == cutoff.agreements;
  }
  active.resize(above - active.data());
  if (cutoff.agreements == 0) return;  // everything is above; ties are labels
  LocalRow* ties = scratch.ties.data();
  KeepSmallest({ties, static_cast<size_t>(equal - ties)}, cutoff.ties, num_rows,
               absl::MakeSpan(scratch.seen));
  active.insert(active.end(), ties, ties + cutoff.ties);
}

}  // namespace

struct HashIndex::State {
  State(const HashSpec& hash_spec, std::unique_ptr<HashFamily> hash_family)
      : spec(hash_spec),
        family(std::move(hash_family)),
        start_key(DeriveKey(hash_spec.seed, kBucketStartPart)) {}

  // Hashes `count` rows, the i-th being row_at(i), into the tables' fingerprints.
  template <typename RowAt>
  void HashRows(const HashedRows& rows, int64_t count, const RowAt& row_at,
                Parallelism parallelism);

  const HashSpec spec;
  const std::unique_ptr<HashFamily> family;
  const uint64_t start_key;
  bool built = false;
  RowCenter center;
  HashTables tables;
  RowCodes codes;
};

template <typename RowAt>
void HashIndex::State::HashRows(const HashedRows& rows, int64_t count, const RowAt& row_at,
                                Parallelism parallelism) {
  struct Buffers {
    std::vector<float> centered, extras, weights;
    std::vector<uint32_t> fingerprints;
  };
  std::vector<Buffers> buffers(std::max(1, parallelism.threads));
  const int64_t dim = family->dim();
  const int64_t num_tables = family->num_tables();
  const int64_t chunks = (count + kRowsPerChunk - 1) / kRowsPerChunk;
  ParallelFor(parallelism, chunks, /*grain=*/1, [&](int64_t chunk, int thread) {
    Buffers& buffer = buffers[thread];
    buffer.centered.resize(kRowsPerChunk * dim);
    buffer.extras.resize(kRowsPerChunk * 2);
    buffer.weights.resize(RowScratchFloats(dim));
    buffer.fingerprints.resize(kRowsPerChunk * num_tables);
    const int64_t first = chunk * kRowsPerChunk;
    const int64_t size = std::min(kRowsPerChunk, count - first);
    for (int64_t i = 0; i < size; ++i) {
      const LocalRow row = row_at(first + i);
      center.Center(rows.ReadWeights(row, buffer.weights.data()), rows.Bias(row),
                    &buffer.centered[i * dim], &buffer.extras[i * 2]);
    }
    family->HashRows(buffer.centered, buffer.extras, size, Parallelism{1},
                     absl::MakeSpan(buffer.fingerprints));
    for (int64_t i = 0; i < size; ++i) {
      const int64_t row = row_at(first + i).value();
      tables.SetFingerprints(row, &buffer.fingerprints[i * num_tables]);
      codes.Set(row, &buffer.fingerprints[i * num_tables]);
    }
  });
}

bool Selection::FoundByHashing(LocalRow row) const {
  return std::binary_search(active.begin(), active.end(), row) &&
         !std::binary_search(missed_labels.begin(), missed_labels.end(), row);
}

HashIndex::HashIndex() = default;
HashIndex::~HashIndex() = default;

absl::StatusOr<std::unique_ptr<HashIndex>> HashIndex::Create(const HashSpec& spec, int64_t dim) {
  ASSIGN_OR_RETURN(std::unique_ptr<HashFamily> family, HashFamily::Create(spec, dim));
  std::unique_ptr<HashIndex> index(new HashIndex());
  index->state_ = std::make_unique<State>(spec, std::move(family));
  return index;
}

const HashFamily& HashIndex::family() const { return *state_->family; }

void HashIndex::Build(const HashedRows& rows, absl::Span<const LocalRow> dirty, bool refresh_center,
                      Parallelism parallelism) {
  State& state = *state_;
  const int64_t num_rows = rows.num_rows();
  const bool first = !state.built || num_rows != state.tables.num_rows();
  if (first) {
    const int64_t codes = state.spec.codes_per_table;
    const int64_t bits = state.family->fingerprint_bits();
    state.tables.Reset(state.family->num_tables(), bits, num_rows);
    state.codes.Reset(state.family->num_tables(), codes, bits / codes, num_rows);
  }
  if (first || refresh_center) {
    state.center = RowCenter::Measure(rows, state.spec, parallelism);
    const auto every_row = [](int64_t i) { return LocalRow(static_cast<uint32_t>(i)); };
    state.HashRows(rows, num_rows, every_row, parallelism);
  } else {
    if (dirty.empty()) return;
    DieUnlessBelow("dirty", dirty, num_rows);
    const auto dirty_row = [&](int64_t i) { return dirty[i]; };
    state.HashRows(rows, static_cast<int64_t>(dirty.size()), dirty_row, parallelism);
  }
  state.tables.Sort(parallelism);
  state.built = true;
}

bool HashIndex::built() const { return state_->built; }

void HashIndex::Select(absl::Span<const uint32_t> fingerprints, absl::Span<const LocalRow> labels,
                       int64_t budget, SelectScratch& scratch, Selection& selection) const {
  const State& state = *state_;
  selection.active.assign(labels.begin(), labels.end());
  selection.missed_labels.clear();
  if (!state.built) {
    selection.missed_labels = selection.active;
    return;
  }
  const int64_t num_rows = state.tables.num_rows();
  DieUnlessBelow("label", labels, num_rows);
  const int64_t num_seen =
      CollectRows(state.tables, state.start_key, state.spec.bucket_read_cap, fingerprints, scratch);
  const absl::Span<const LocalRow> seen(scratch.seen.data(), num_seen);
  CountAgreements(state.codes, fingerprints, seen, scratch);

  // Labels are judged as if they had been mere candidates, then taken out of the ranking.
  const Cutoff with_labels = FindCutoff(scratch.counts, std::max<int64_t>(budget, 0));
  for (const LocalRow label : labels) {
    if (!Survives(label, with_labels, seen, scratch.agreements)) {
      selection.missed_labels.push_back(label);
    }
  }
  for (const LocalRow label : labels) {
    --scratch.counts[scratch.agreements[label.value()]];
    scratch.agreements[label.value()] = 0;
  }
  scratch.counts[0] = 0;
  const int64_t left = std::max<int64_t>(budget - static_cast<int64_t>(labels.size()), 0);
  TakeBest(FindCutoff(scratch.counts, left), seen, num_rows, scratch, selection.active);
  if (scratch.ties.size() < selection.active.size()) scratch.ties.resize(selection.active.size());
  SortRows(absl::MakeSpan(selection.active), num_rows, absl::MakeSpan(scratch.ties));
}

absl::Span<const LocalRow> HashIndex::Bucket(int64_t table, uint32_t fingerprint) const {
  if (!state_->built) return {};
  return state_->tables.Bucket(table, fingerprint);
}

IndexBytes HashIndex::BytesFor(const HashSpec& spec, int64_t num_rows) {
  const int64_t bits = FingerprintBits(spec);
  return {.tables = HashTables::BytesFor(spec.num_tables, bits, num_rows),
          .codes = RowCodes::BytesFor(spec.num_tables, bits, num_rows)};
}

int64_t HashIndex::memory_bytes() const {
  return state_->tables.memory_bytes() + state_->codes.memory_bytes();
}

}  // namespace dslide
