#include "core/engine/model/head_table.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status_macros.h"
#include "core/engine/model/batch_selector.h"
#include "core/engine/model/head_scores.h"
#include "core/engine/model/head_update.h"
#include "core/engine/model/tail_sample.h"
#include "core/engine/near/long_rows.h"

namespace dslide {
namespace {

constexpr int64_t kRecallRows = 10;
// Of a prediction's budget, one row in so many may be of the query's own buckets.
constexpr int64_t kBudgetPerBucketRow = 8;
// Queries whose candidates are held at a time: each may have as many as there are rows.
constexpr int64_t kSearchedAtOnce = 64;

// Kept, because the memory of a search is some megabytes, and asking for it would cost as much.
struct SearchScratch {
  SelectScratch select;
  LongRowsScratch near;
};
SearchScratch& ThreadScratch() {
  thread_local SearchScratch scratch;
  return scratch;
}

}  // namespace

// Kept between batches so that a steady stream of them allocates nothing.
struct HeadTable::Scratch {
  BatchSelector selector;
  HeadScorer scorer;
  HeadUpdater updater;
  std::vector<float> recall_hidden;
  std::vector<LocalRow> dirty_rows;
};

// The longest rows as they were when a search was first made after rows had been hashed.
struct HeadTable::Longest {
  absl::Mutex mu;
  int64_t hashings ABSL_GUARDED_BY(mu) = -1;
  std::shared_ptr<const LongRows> rows ABSL_GUARDED_BY(mu);  // shared with searches under way

  std::shared_ptr<const LongRows> Get(const RowReader& reader, const HashIndex& index,
                                      LeftOutRows left_out, Parallelism parallelism) {
    const absl::MutexLock lock(&mu);
    if (hashings != index.hashings()) {
      rows = std::make_shared<LongRows>(
          LongRows::Measure(reader, index.mean(), parallelism, left_out));
      hashings = index.hashings();
    }
    return rows;
  }
  void Forget() {
    const absl::MutexLock lock(&mu);
    hashings = -1;
  }
};

// The rows as exact scans want them, kept while no update comes. One scan alone is not worth the
// memory: the second one between two updates makes them.
struct HeadTable::Kept {
  absl::Mutex mu;
  int64_t scanned_at ABSL_GUARDED_BY(mu) = -1;  // updates before the last scan; -1: rows changed
  std::shared_ptr<const ScannedRows> rows ABSL_GUARDED_BY(mu);  // shared with scans under way

  // Null where there is none. room: bytes that it may take.
  std::shared_ptr<const ScannedRows> Get(const RowReader& reader, Step applied, int64_t room,
                                         Parallelism parallelism) {
    const absl::MutexLock lock(&mu);
    const bool again = scanned_at == applied.value();
    scanned_at = applied.value();
    if (rows != nullptr || !again) return rows;
    const RowStore& store = reader.store();
    if (ScannedRows::BytesOf(store.num_rows(), store.dim()) > room) return nullptr;
    rows = std::make_shared<const ScannedRows>(reader, parallelism);
    return rows;
  }
  void Forget() {
    const absl::MutexLock lock(&mu);
    scanned_at = -1;
    rows.reset();
  }
  int64_t bytes(const RowStore& store) {
    const absl::MutexLock lock(&mu);
    return rows == nullptr ? 0 : ScannedRows::BytesOf(store.num_rows(), store.dim());
  }
};

HeadTable::HeadTable(const TableSpec& spec, std::unique_ptr<RowStore> store)
    : spec_(ResolvedHead(spec)),
      store_(std::move(store)),
      dirty_(store_->num_rows(), 0),
      scratch_(std::make_unique<Scratch>()),
      longest_(std::make_unique<Longest>()),
      kept_(std::make_unique<Kept>()) {
  max_active_ = ShareOf(spec_.max_active);
  tail_rows_ = ShareOf(spec_.tail_rows);
  proposals_ = ShareOf(spec_.hash.proposed_per_sample);
  drawn_ = ShareOf(spec_.sampled_candidates);
}

HeadTable::~HeadTable() = default;

absl::StatusOr<std::unique_ptr<HeadTable>> HeadTable::Create(const TableSpec& spec,
                                                             uint64_t model_seed, ShardRows rows,
                                                             Parallelism parallelism) {
  ASSIGN_OR_RETURN(std::unique_ptr<RowStore> store,
                   RowStore::Create(spec, model_seed, std::move(rows), parallelism));
  std::unique_ptr<HeadTable> table(new HeadTable(spec, std::move(store)));
  if (spec.head.max_active > 0) {
    ASSIGN_OR_RETURN(table->index_, HashIndex::Create(table->spec_.hash, spec.dim));
  }
  table->ResetAfterLoad(Step(0), parallelism);
  return table;
}

int64_t HeadTable::ShareOf(int64_t rows) const {
  return ShareOfRows(rows, store_->num_rows(), store_->rows().table_rows());
}

void HeadTable::ResetAfterLoad(Step applied, Parallelism parallelism) {
  applied_ = applied;
  kept_->Forget();
  std::fill(dirty_.begin(), dirty_.end(), 0);
  if (index_ == nullptr || store_->num_rows() == 0) return;
  index_->Build(*store_, {}, Refresh::kYes, parallelism, times_);
}

void HeadTable::SettleHashes() {
  if (index_ != nullptr) index_->FinishBuild();
}

bool HeadTable::building() const { return index_ != nullptr && index_->building(); }

bool HeadTable::SettlingWaits(int64_t steps) const {
  if (index_ == nullptr || store_->num_rows() == 0 || StepsUntilVisible() == 0) return false;
  const int64_t interval = spec_.hash.rebuild_every_steps;
  const int64_t until_next = interval - applied_.value() % interval;
  // Where builds follow each other closely there is no better moment.
  const int64_t soon = std::min(steps, (interval - StepsUntilVisible()) / 2);
  return index_->sorting() || until_next <= soon;
}

HeadHashes HeadTable::SaveHashes() const { return {.index = index_->Save(), .dirty = dirty_}; }

absl::Status HeadTable::RestoreAfterLoad(Step applied, HeadHashes hashes, Parallelism parallelism) {
  if (hashes.dirty.size() != dirty_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the marks of changed rows are of ",
                                                   hashes.dirty.size(), " rows, the table has ",
                                                   dirty_.size()));
  }
  applied_ = applied;
  kept_->Forget();
  dirty_ = std::move(hashes.dirty);
  return index_->Restore(store_->num_rows(), std::move(hashes.index), parallelism, times_);
}

int64_t HeadTable::StepsUntilVisible() const {
  return HashIndex::StepsUntilVisible(spec_.hash, store_->num_rows());
}

void HeadTable::StartBuild(Parallelism parallelism) {
  std::vector<LocalRow>& dirty_rows = scratch_->dirty_rows;
  dirty_rows.clear();
  for (size_t row = 0; row < dirty_.size(); ++row) {
    if (dirty_[row] != 0) dirty_rows.push_back(LocalRow(static_cast<uint32_t>(row)));
    dirty_[row] = 0;
  }
  // With most rows to be hashed anyway, a new centre costs little.
  const bool most_dirty = 4 * static_cast<int64_t>(dirty_rows.size()) >= 3 * store_->num_rows();
  const Refresh refresh = most_dirty ? Refresh::kYes : Refresh::kIfMoved;
  if (StepsUntilVisible() == 0) {
    index_->Build(*store_, dirty_rows, refresh, parallelism, times_);
  } else {
    index_->StartBuild(*store_, dirty_rows, refresh, parallelism, times_);
  }
}

void HeadTable::Forward(HeadBatch batch, uint64_t tail_key, Parallelism parallelism,
                        HeadContext& context, HeadForwardOutput& output) {
  context.batch = std::move(batch);
  const bool has_explicit = !context.batch.explicit_rows.empty();
  const bool hashed = !has_explicit || !context.batch.fingerprints.empty();
  const SelectionPlan plan{.index = hashed ? index_.get() : nullptr,
                           .every_row = index_ == nullptr && !has_explicit,
                           .num_rows = store_->num_rows(),
                           .max_active = max_active_,
                           .proposals = proposals_,
                           .drawn = drawn_,
                           .tail_rows = tail_rows_,
                           .tail_key = tail_key,
                           .absent = left_out_,
                           .num_absent = num_left_out_};
  output.active_pairs = scratch_->selector.Select(plan, parallelism, context, times_);
  output.distinct_rows = static_cast<int64_t>(context.rows.size());
  {
    const ScopedStage stage(times_, Stage::kForward);
    scratch_->scorer.Score(*store_, spec_.loss, scratch_->selector.logit_offsets(), parallelism,
                           context, output);
  }
  const ScopedStage stage(times_, Stage::kRecall);
  FindRecall(context.batch, parallelism, output);
  // What Backward() needs of them is in the scores and weights.
  context.batch.explicit_rows = {};
}

void HeadTable::FindRecall(const HeadBatch& batch, Parallelism parallelism,
                           HeadForwardOutput& output) {
  const int64_t count = static_cast<int64_t>(batch.recall_samples.size());
  const int64_t dim = store_->dim();
  output.recall.assign(count, RecallTop());
  if (count == 0) return;
  std::vector<float>& hidden = scratch_->recall_hidden;
  hidden.resize(count * dim);
  for (int64_t i = 0; i < count; ++i) {
    std::copy_n(batch.hidden.data() + batch.recall_samples[i] * dim, dim, hidden.data() + i * dim);
  }
  const ScoredRows best =
      ExactTopK(RowReader(*store_), hidden, count, kRecallRows, parallelism, left_out_);
  for (int64_t i = 0; i < count; ++i) {
    RecallTop& top = output.recall[i];
    top.sample = batch.recall_samples[i];
    for (int64_t j = i * kRecallRows; j < (i + 1) * kRecallRows; ++j) {
      if (best.rows[j] == kNoRow) break;
      const bool found =
          scratch_->selector.Found(batch, top.sample, store_->rows().ToLocal(best.rows[j]));
      top.rows.push_back(best.rows[j]);
      top.logits.push_back(best.logits[j]);
      top.found.push_back(found ? 1 : 0);
    }
  }
}

int64_t HeadTable::Backward(const HeadContext& context, absl::Span<const float> log_partitions,
                            float scale, float magnitude_bound, Parallelism parallelism,
                            absl::Span<float> hidden_gradient,
                            std::optional<double> learning_rate) {
  const HeadUpdate update{.loss = spec_.loss,
                          .log_partitions = log_partitions,
                          .scale = scale,
                          .fixed_bias = spec_.fixed_bias,
                          .magnitude_bound = magnitude_bound,
                          .step = Step(applied_.value() + 1),
                          .learning_rate = learning_rate};
  int64_t rejected;
  {
    const ScopedStage stage(times_, Stage::kHeadUpdate);
    rejected = scratch_->updater.Run(update, context, parallelism, *store_, absl::MakeSpan(dirty_),
                                     hidden_gradient);
  }
  AdvanceStep(parallelism);
  return rejected;
}

void HeadTable::AdvanceStep(Parallelism parallelism) {
  ++applied_;
  kept_->Forget();
  if (index_ == nullptr || store_->num_rows() == 0) return;
  const int64_t since_start = applied_.value() % spec_.hash.rebuild_every_steps;
  if (since_start == 0) {
    StartBuild(parallelism);
  } else if (since_start == StepsUntilVisible()) {
    index_->FinishBuild();
  }
}

void HeadTable::LeaveOut(std::vector<uint8_t> rows, Parallelism parallelism) {
  const std::vector<LocalRow> changed = store_->SetAbsent(rows);
  kept_->Forget();
  left_out_ = std::move(rows);
  num_left_out_ = std::count_if(left_out_.begin(), left_out_.end(),
                                [](uint8_t left_out) { return left_out != 0; });
  if (changed.empty() || index_ == nullptr) return;
  index_->LeaveOut(left_out_, *store_, changed, parallelism);
  longest_->Forget();
}

void HeadTable::MarkDirty(absl::Span<const LocalRow> rows) {
  kept_->Forget();
  for (const LocalRow row : rows) dirty_[row.value()] = 1;
}

HeadTable::Candidates HeadTable::Select(absl::Span<const uint32_t> fingerprints, int64_t batch,
                                        int64_t max_active, Parallelism parallelism) const {
  if (index_ != nullptr) {
    const int64_t budget = max_active == 0 ? max_active_ : ShareOf(max_active);
    Candidates found = SelectWithin(fingerprints, batch, budget, parallelism);
    for (int64_t query = 0; query < batch; ++query) {
      std::sort(found.rows.begin() + found.offsets[query],
                found.rows.begin() + found.offsets[query + 1]);
    }
    return found;
  }
  Candidates all;
  all.offsets.assign(1, 0);
  for (int64_t query = 0; query < batch; ++query) {
    for (int64_t i = 0; i < store_->num_rows(); ++i) {
      const LocalRow row(static_cast<uint32_t>(i));
      if (left_out_.empty() || left_out_[i] == 0) all.rows.push_back(row);
    }
    all.offsets.push_back(static_cast<uint32_t>(all.rows.size()));
  }
  return all;
}

HeadTable::Candidates HeadTable::SelectWithin(absl::Span<const uint32_t> fingerprints,
                                              int64_t batch, int64_t budget,
                                              Parallelism parallelism) const {
  const int64_t num_tables = index_->family().num_tables();
  std::vector<Selection> selections(batch);
  std::vector<SelectScratch> scratch(std::max(1, parallelism.threads));
  ParallelFor(parallelism, batch, /*grain=*/4, [&](int64_t query, int thread) {
    index_->Select(fingerprints.subspan(query * num_tables, num_tables), /*labels=*/{}, budget,
                   scratch[thread], selections[query]);
  });
  Candidates candidates;
  candidates.offsets.assign(1, 0);
  for (const Selection& selection : selections) {
    candidates.rows.insert(candidates.rows.end(), selection.active.begin(), selection.active.end());
    candidates.offsets.push_back(static_cast<uint32_t>(candidates.rows.size()));
  }
  return candidates;
}

HeadTable::Candidates HeadTable::Search(const RowReader& reader, absl::Span<const float> hidden,
                                        absl::Span<const uint32_t> fingerprints, int64_t batch,
                                        int64_t budget, Parallelism parallelism) const {
  const int64_t num_tables = index_->family().num_tables();
  const int64_t dim = store_->dim();
  const std::shared_ptr<const LongRows> longest =  // shared: see Longest
      longest_->Get(reader, *index_, left_out_, parallelism);
  std::vector<std::vector<LocalRow>> found(static_cast<size_t>(batch));
  ParallelFor(parallelism, batch, /*grain=*/4, [&](int64_t query, int) {
    SearchScratch& scratch = ThreadScratch();
    const int64_t from_buckets = budget / kBudgetPerBucketRow;
    // To look into a table costs as much as to score several rows.
    const HashQuery asked = {.fingerprints = fingerprints.subspan(query * num_tables, num_tables),
                             .labels = {},
                             .most_tables = std::max<int64_t>(from_buckets, 1)};
    std::vector<LocalRow>& rows = found[static_cast<size_t>(query)];
    Selection selection;
    index_->Select({&asked, 1}, from_buckets, scratch.select, {&selection, 1});
    for (const LocalRow row : selection.active) {
      if (!longest->Has(row)) rows.push_back(row);
    }
    longest->FindNear(hidden.subspan(static_cast<size_t>(query * dim), static_cast<size_t>(dim)),
                      budget - static_cast<int64_t>(rows.size()), scratch.near, rows);
    std::sort(rows.begin(), rows.end());
  });
  Candidates candidates;
  candidates.offsets.assign(1, 0);
  for (const std::vector<LocalRow>& rows : found) {
    candidates.rows.insert(candidates.rows.end(), rows.begin(), rows.end());
    candidates.offsets.push_back(static_cast<uint32_t>(candidates.rows.size()));
  }
  return candidates;
}

ScoredRows HeadTable::TopK(absl::Span<const float> hidden, int64_t batch, int64_t k,
                           absl::Span<const uint32_t> fingerprints, Parallelism parallelism,
                           int64_t budget, int64_t room) const {
  const RowReader reader = RowReader::Averaged(*store_, applied_);
  if (index_ == nullptr || fingerprints.empty()) {
    const std::shared_ptr<const ScannedRows> kept =  // shared: see Kept
        kept_->Get(reader, applied_, room, parallelism);
    return ExactTopK(reader, hidden, batch, k, parallelism, left_out_, kept.get());
  }
  if (budget > 0 && index_->built()) {
    return SearchTopK(reader, hidden, batch, k, fingerprints, std::max(ShareOf(budget), k),
                      parallelism);
  }
  const Candidates candidates =
      SelectWithin(fingerprints, batch, std::max(max_active_, k), parallelism);
  return CandidateTopK(reader, hidden, candidates, k, parallelism, left_out_);
}

ScoredRows HeadTable::SearchTopK(const RowReader& reader, absl::Span<const float> hidden,
                                 int64_t batch, int64_t k, absl::Span<const uint32_t> fingerprints,
                                 int64_t budget, Parallelism parallelism) const {
  const int64_t num_tables = index_->family().num_tables();
  const int64_t dim = store_->dim();
  ScoredRows all;
  all.exact = false;
  for (int64_t first = 0; first < batch; first += kSearchedAtOnce) {
    const int64_t count = std::min(kSearchedAtOnce, batch - first);
    const absl::Span<const float> asked = hidden.subspan(first * dim, count * dim);
    const Candidates candidates =
        Search(reader, asked, fingerprints.subspan(first * num_tables, count * num_tables), count,
               budget, parallelism);
    const ScoredRows part = CandidateTopK(reader, asked, candidates, k, parallelism, left_out_);
    all.rows.insert(all.rows.end(), part.rows.begin(), part.rows.end());
    all.logits.insert(all.logits.end(), part.logits.begin(), part.logits.end());
    all.by_query.insert(all.by_query.end(), part.by_query.begin(), part.by_query.end());
    all.scored_rows += part.scored_rows;
  }
  return all;
}

int64_t HeadTable::kept_bytes() const { return kept_->bytes(*store_); }

void HeadTable::ForgetKept() const { kept_->Forget(); }

int64_t HeadTable::memory_bytes() const {
  return store_->memory_bytes() + static_cast<int64_t>(dirty_.size() + left_out_.size()) +
         (index_ == nullptr ? 0 : index_->memory_bytes());
}

}  // namespace dslide
