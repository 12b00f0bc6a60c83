#include "core/engine/lsh/hash_index.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/counter_rng.h"
#include "core/base/status_macros.h"
#include "core/engine/lsh/candidate_ranking.h"
#include "core/engine/lsh/candidates.h"
#include "core/engine/lsh/hash_tables.h"
#include "core/engine/lsh/row_center.h"
#include "core/engine/lsh/row_codes.h"

namespace dslide {
namespace {

constexpr uint64_t kBucketStartPart = 3;
// Rows hashed in one go: a few groups of lanes, small enough for the L1 and L2 caches.
constexpr int64_t kRowsPerChunk = 64;
// Rows asked for ahead of being hashed.
constexpr int64_t kHashedRowsAhead = 4;

// Queries that a thread takes together: enough for their selections to overlap, few enough for all
// threads to end at about the same time.
constexpr int64_t kQueriesPerGrain = 16;

// `rows` is sorted. A row beyond the index would be written outside of its arrays.
void DieUnlessBelow(const char* what, absl::Span<const LocalRow> rows, int64_t num_rows) {
  if (rows.empty() || rows.back().value() < num_rows) return;
  std::fprintf(stderr, "HashIndex: %s row %u, but the index has %lld rows\n", what,
               rows.back().value(), static_cast<long long>(num_rows));
  std::abort();
}

bool HasSketches(const HashSpec& spec) { return spec.ranked_per_active > 0; }

absl::Duration Now(const SelectScratch& scratch) {
  return scratch.clock == nullptr ? absl::ZeroDuration() : scratch.clock->Now();
}

}  // namespace

struct HashIndex::State {
  State(const HashSpec& hash_spec, std::unique_ptr<HashFamily> hash_family)
      : spec(hash_spec),
        family(std::move(hash_family)),
        start_key(DeriveKey(hash_spec.seed, kBucketStartPart)) {}
  ~State() {
    if (sorter.joinable()) sorter.join();
  }

  // Hashes `count` rows, the i-th being row_at(i), into the tables' fingerprints.
  template <typename RowAt>
  void HashRows(const HashedRows& rows, int64_t count, const RowAt& row_at,
                Parallelism parallelism);

  // Makes room for the codes' rows.
  void ResetTables(HashTables& which) const {
    which.Reset(codes, SearchedTables(spec), HasSketches(spec));
  }

  const HashSpec spec;
  const std::unique_ptr<HashFamily> family;
  const uint64_t start_key;
  bool built = false;
  int64_t hashings = 0;
  RowCenter center;
  RowCodes codes;
  HashTables tables;              // present
  HashTables next;                // of the build under way
  std::vector<uint8_t> left_out;  // [rows], or empty
  std::thread sorter;
  std::atomic<bool> sorting = false;
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
      if (first + i + kHashedRowsAhead < count) rows.Prefetch(row_at(first + i + kHashedRowsAhead));
      const LocalRow row = row_at(first + i);
      center.Center(rows.ReadWeights(row, buffer.weights.data()), rows.Bias(row),
                    &buffer.centered[i * dim], &buffer.extras[i * 2]);
    }
    family->HashRows(buffer.centered, buffer.extras, size, Parallelism{1},
                     absl::MakeSpan(buffer.fingerprints));
    for (int64_t i = 0; i < size; ++i) {
      codes.Set(row_at(first + i).value(), &buffer.fingerprints[i * num_tables]);
    }
  });
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

void HashIndex::MakeRoom(int64_t num_rows) {
  State& state = *state_;
  const int64_t num_tables = state.family->num_tables();
  const int64_t codes = state.spec.codes_per_table;
  const int64_t bits = state.family->fingerprint_bits();
  state.codes.Reset(num_tables, codes, bits / codes, num_rows);
  state.ResetTables(state.tables);
  if (StepsUntilVisible(state.spec, num_rows) > 0) state.ResetTables(state.next);
}

bool HashIndex::Rehash(const HashedRows& rows, absl::Span<const LocalRow> dirty, Refresh refresh,
                       Parallelism parallelism, StageTimes* times) {
  State& state = *state_;
  const int64_t num_rows = rows.num_rows();
  const bool first = !state.built || num_rows != state.tables.num_rows();
  if (first) {
    MakeRoom(num_rows);
    refresh = Refresh::kYes;
  }
  if (refresh != Refresh::kNo) {
    const ScopedStage stage(times, Stage::kCentring);
    RowCenter center = RowCenter::Measure(rows, state.spec, parallelism);
    if (refresh == Refresh::kIfMoved && !center.HasMovedFrom(state.center, kMovedTolerance)) {
      refresh = Refresh::kNo;
    } else {
      state.center = std::move(center);
    }
  }
  const ScopedStage stage(times, Stage::kRehash);
  if (refresh == Refresh::kNo && dirty.empty()) return false;
  ++state.hashings;
  if (refresh == Refresh::kNo) {
    DieUnlessBelow("dirty", dirty, num_rows);
    const auto dirty_row = [&](int64_t i) { return dirty[i]; };
    state.HashRows(rows, static_cast<int64_t>(dirty.size()), dirty_row, parallelism);
  } else {
    const auto every_row = [](int64_t i) { return LocalRow(static_cast<uint32_t>(i)); };
    state.HashRows(rows, num_rows, every_row, parallelism);
  }
  return true;
}

void HashIndex::StartBuild(const HashedRows& rows, absl::Span<const LocalRow> dirty,
                           Refresh refresh, Parallelism parallelism, StageTimes* times) {
  FinishBuild();
  if (!Rehash(rows, dirty, refresh, parallelism, times)) return;
  if (state_->next.num_rows() != rows.num_rows()) state_->ResetTables(state_->next);
  state_->sorting = true;
  state_->sorter = std::thread([state = state_.get(), times] {
    const ScopedStage stage(times, Stage::kTableBuild);
    state->next.Sort(state->codes, Parallelism{1}, state->left_out);
    state->sorting = false;
  });
}

bool HashIndex::building() const { return state_->sorter.joinable(); }

bool HashIndex::sorting() const { return state_->sorting; }

void HashIndex::FinishBuild() {
  if (!state_->sorter.joinable()) return;
  state_->sorter.join();
  std::swap(state_->tables, state_->next);
  state_->built = true;
}

void HashIndex::Build(const HashedRows& rows, absl::Span<const LocalRow> dirty, Refresh refresh,
                      Parallelism parallelism, StageTimes* times) {
  FinishBuild();
  if (!Rehash(rows, dirty, refresh, parallelism, times)) return;
  const ScopedStage stage(times, Stage::kTableBuild);
  state_->tables.Sort(state_->codes, parallelism, state_->left_out);
  state_->built = true;
}

void HashIndex::LeaveOut(std::vector<uint8_t> left_out, const HashedRows& rows,
                         absl::Span<const LocalRow> changed, Parallelism parallelism) {
  FinishBuild();
  state_->left_out = std::move(left_out);
  Build(rows, changed, Refresh::kNo, parallelism);
}

IndexState HashIndex::Save() const {
  const State& state = *state_;
  if (!state.built || state.sorter.joinable()) {
    std::fprintf(stderr, "HashIndex: saved without tables, or while some are being sorted\n");
    std::abort();
  }
  return {.mean = state.center.mean(),
          .bound_squared = state.center.bound_squared(),
          .codes = {state.codes.words().begin(), state.codes.words().end()}};
}

absl::Status HashIndex::Restore(int64_t num_rows, IndexState saved, Parallelism parallelism,
                                StageTimes* times) {
  State& state = *state_;
  const auto codes = static_cast<int64_t>(saved.codes.size() * sizeof(uint64_t));
  const int64_t expected = BytesFor(state.spec, num_rows).codes;
  if (codes != expected || static_cast<int64_t>(saved.mean.size()) != state.family->dim() + 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a saved index has ", codes, " bytes of codes and ", saved.mean.size(), " means; ",
        num_rows, " rows need ", expected, " and ", state.family->dim() + 1));
  }
  FinishBuild();
  MakeRoom(num_rows);
  state.codes.SetWords(saved.codes);
  state.center = RowCenter::Of(state.spec, std::move(saved.mean), saved.bound_squared);
  const ScopedStage stage(times, Stage::kTableBuild);
  state.tables.Sort(state.codes, parallelism, state.left_out);
  state.built = true;
  ++state.hashings;
  return absl::OkStatus();
}

bool HashIndex::built() const { return state_->built; }

void HashIndex::Select(absl::Span<const HashQuery> queries, int64_t budget, SelectScratch& scratch,
                       absl::Span<Selection> selections) const {
  const State& state = *state_;
  const auto count = static_cast<int64_t>(queries.size());
  for (int64_t i = 0; i < count; ++i) {
    selections[i].active.assign(queries[i].labels.begin(), queries[i].labels.end());
    selections[i].missed_labels.clear();
    selections[i].drawn = selections[i].drawn_from = 0;
    selections[i].left_out.clear();
    if (state.built) {
      DieUnlessBelow("label", queries[i].labels, state.tables.num_rows());
    } else {
      selections[i].missed_labels = selections[i].active;
    }
  }
  if (!state.built) return;
  const CandidateSource source = {.tables = state.tables,
                                  .codes = state.codes,
                                  .start_key = state.start_key,
                                  .read_cap = state.spec.bucket_read_cap,
                                  .ranked_per_active = state.spec.ranked_per_active};
  // Each query is a stage further than the next one, see SelectScratch::Query.
  constexpr int64_t kStages = SelectScratch::kQueries;
  const auto of = [&](int64_t i) -> SelectScratch::Query& { return scratch.queries[i % kStages]; };
  absl::Duration start = Now(scratch);
  for (int64_t i = 0; i < count + kStages - 1; ++i) {
    if (i < count) FindReads(source, queries[i].fingerprints, queries[i].most_tables, of(i));
    if (const int64_t k = i - 1; k >= 0 && k < count) {
      CollectCandidates(source, queries[k].labels, budget, scratch, of(k));
    }
    const absl::Duration collected = Now(scratch);
    if (const int64_t k = i - 2; k >= 0) {
      RankCandidates(state.codes, queries[k], budget, scratch, of(k), selections[k]);
    }
    const absl::Duration ranked = Now(scratch);
    scratch.lookup_time += collected - start;
    scratch.ranking_time += ranked - collected;
    start = ranked;
  }
}

void HashIndex::SelectEach(absl::Span<const HashQuery> queries, int64_t budget,
                           Parallelism parallelism, absl::Span<SelectScratch> scratch,
                           absl::Span<Selection> selections) const {
  const auto count = static_cast<int64_t>(queries.size());
  const int64_t grains = (count + kQueriesPerGrain - 1) / kQueriesPerGrain;
  ParallelFor(parallelism, grains, /*grain=*/1, [&](int64_t grain, int thread) {
    const auto first = static_cast<size_t>(grain * kQueriesPerGrain);
    Select(queries.subspan(first, kQueriesPerGrain), budget, scratch[thread],
           selections.subspan(first, kQueriesPerGrain));
  });
}

void HashIndex::SelectTogether(absl::Span<const HashQuery> queries, int64_t budget,
                               int64_t proposals, Parallelism parallelism,
                               absl::Span<SelectScratch> scratch, CandidatePool& pool,
                               absl::Span<Selection> selections) const {
  const State& state = *state_;
  const auto count = static_cast<int64_t>(queries.size());
  const int64_t grains = (count + kQueriesPerGrain - 1) / kQueriesPerGrain;
  if (!state.built || count == 0) return Select(queries, budget, scratch[0], selections);
  const int64_t room = std::max<int64_t>(budget, 0);
  const int64_t proposed = std::max(proposals, (room + count - 1) / count);
  ParallelFor(parallelism, grains, /*grain=*/1, [&](int64_t grain, int thread) {
    const auto first = static_cast<size_t>(grain * kQueriesPerGrain);
    std::array<HashQuery, kQueriesPerGrain> unlabelled;
    const auto size = std::min<size_t>(kQueriesPerGrain, queries.size() - first);
    for (size_t i = 0; i < size; ++i) {
      unlabelled[i].fingerprints = queries[first + i].fingerprints;
    }
    Select(absl::MakeConstSpan(unlabelled).subspan(0, size), proposed, scratch[thread],
           selections.subspan(first, size));
  });
  const absl::Duration start = Now(scratch[0]);
  pool.Reset(state.tables.num_rows());
  for (const Selection& selection : selections) pool.Propose(selection.active);
  for (const HashQuery& query : queries) {
    DieUnlessBelow("label", query.labels, state.tables.num_rows());
    pool.AddLabels(query.labels);
  }
  pool.Collect(state.codes, parallelism);
  scratch[0].ranking_time += Now(scratch[0]) - start;
  ParallelFor(parallelism, grains, /*grain=*/1, [&](int64_t grain, int thread) {
    const absl::Duration begin = Now(scratch[thread]);
    const int64_t end = std::min(count, (grain + 1) * kQueriesPerGrain);
    for (int64_t i = grain * kQueriesPerGrain; i < end; ++i) {
      pool.Rank(state.codes, queries[i], budget, scratch[thread], selections[i]);
    }
    scratch[thread].ranking_time += Now(scratch[thread]) - begin;
  });
}

absl::Span<const float> HashIndex::mean() const { return state_->center.mean(); }

int64_t HashIndex::hashings() const { return state_->hashings; }

std::vector<LocalRow> HashIndex::Bucket(int64_t table, uint32_t fingerprint) const {
  std::vector<LocalRow> rows;
  if (!state_->built || table >= state_->tables.num_tables()) return rows;
  const BucketRows bucket = state_->tables.Bucket(state_->codes, table, fingerprint);
  for (int64_t i = 0; i < bucket.size(); ++i) rows.push_back(bucket[i]);
  return rows;
}

BucketLoad HashIndex::MeasureBuckets(int64_t sample) const {
  BucketLoad load;
  const State& state = *state_;
  const int64_t num_rows = state.tables.num_rows();
  if (!state.built || num_rows == 0 || sample < 1) return load;
  load.rows_sampled = std::min(sample, num_rows);
  const int64_t num_tables = state.codes.num_tables();
  double found = 0;
  for (int64_t table = 0; table < num_tables; ++table) {
    const RowCodes::Column prints = state.codes.Fingerprints(table);
    for (int64_t i = 0; i < load.rows_sampled; ++i) {
      const int64_t row = i * num_rows / load.rows_sampled;
      // A row that was hashed again since the tables were sorted may find an empty bucket.
      const int64_t rows = state.tables.Bucket(state.codes, table, prints[row]).size();
      found += static_cast<double>(std::max<int64_t>(rows, 1));
    }
  }
  load.rows_per_bucket = found / static_cast<double>(load.rows_sampled * num_tables);
  const double expected = 1.0 + static_cast<double>(num_rows - 1) /
                                    std::exp2(static_cast<double>(state.codes.fingerprint_bits()));
  load.skew = load.rows_per_bucket / expected;
  return load;
}

int64_t HashIndex::StepsUntilVisible(const HashSpec& spec, int64_t num_rows) {
  // So many ids are sorted, on one thread, in less than a training step.
  constexpr int64_t kIdsPerStep = 1 << 21;
  return std::min(num_rows * SearchedTables(spec) / kIdsPerStep, spec.rebuild_every_steps / 2);
}

IndexBytes HashIndex::BytesFor(const HashSpec& spec, int64_t num_rows) {
  const int64_t bits = FingerprintBits(spec);
  const int64_t sets = StepsUntilVisible(spec, num_rows) > 0 ? 2 : 1;
  return {.tables =
              sets * HashTables::BytesFor(SearchedTables(spec), bits, num_rows, HasSketches(spec)),
          .codes = RowCodes::BytesFor(spec.num_tables, bits, num_rows)};
}

int64_t HashIndex::memory_bytes() const {
  return state_->tables.memory_bytes() + state_->next.memory_bytes() + state_->codes.memory_bytes();
}

}  // namespace dslide
