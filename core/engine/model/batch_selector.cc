#include "core/engine/model/batch_selector.h"

#include <algorithm>
#include <utility>

#include "core/base/counter_rng.h"

namespace dslide {
namespace {

constexpr int64_t kPairsPerGrain = 1 << 15;

// A pair's tag is its sample and one of these.
constexpr uint32_t kKindBits = 2;
constexpr uint32_t kActive = 0;
constexpr uint32_t kLabel = 1;
constexpr uint32_t kDrawn = 2;
constexpr uint32_t kLeftOut = 3;

uint32_t KindOf(uint32_t tag) { return tag & ((1 << kKindBits) - 1); }

}  // namespace

int64_t BatchSelector::Select(const SelectionPlan& plan, Parallelism parallelism,
                              HeadContext& context, StageTimes* times) {
  const int64_t batch = context.batch.batch();
  every_row_ = plan.every_row;
  hashed_ = plan.index != nullptr;
  given_.Merge(context.batch);
  weighted_ = given_.has_weights() || (hashed_ && plan.drawn > 0);
  SelectActive(plan, parallelism, context.batch, times);
  const ScopedStage stage(times, Stage::kInversion);
  DrawShared(plan);
  CountPairs(batch);
  WriteKeys(batch, parallelism);
  inversion_.Invert(plan.num_rows, parallelism);
  SplitTags(parallelism, context);
  MergeRows(batch, context);
  TakeExplicit(context);
  WeighTail(plan, context);
  return plan.every_row ? batch * (plan.num_rows - plan.num_absent)
                        : first_pair_[batch] - left_out_pairs_;
}

bool BatchSelector::Found(const HeadBatch& batch, int64_t sample, LocalRow row) const {
  if (every_row_) return true;
  if (hashed_) return selections_[sample].FoundByHashing(row);
  const ExplicitRows<LocalRow>& named = batch.explicit_rows;
  const auto begin = named.rows.begin() + named.offsets[sample];
  const auto end = named.rows.begin() + named.offsets[sample + 1];
  const auto place = std::lower_bound(begin, end, row);
  if (place == end || *place != row) return false;
  return named.weights.empty() || named.weights[place - named.rows.begin()] > 0.0f;
}

void BatchSelector::SelectActive(const SelectionPlan& plan, Parallelism parallelism,
                                 const HeadBatch& batch, StageTimes* times) {
  // Selections of earlier, larger batches stay for their memory.
  if (static_cast<int64_t>(selections_.size()) < batch.batch()) selections_.resize(batch.batch());
  if (static_cast<int>(select_scratch_.size()) < parallelism.threads) {
    select_scratch_.resize(parallelism.threads);
  }
  if (plan.index == nullptr) {
    for (int64_t sample = 0; sample < batch.batch(); ++sample) {
      const absl::Span<const LocalRow> given = given_.Of(sample);
      Selection& selection = selections_[sample];
      selection.active.assign(given.begin(), given.end());
      selection.drawn = selection.drawn_from = 0;
      selection.left_out.clear();
    }
    return;
  }
  for (SelectScratch& scratch : select_scratch_) {
    scratch.clock = times == nullptr ? nullptr : &times->clock();
  }
  const absl::Duration start = times == nullptr ? absl::ZeroDuration() : times->Now();
  SelectHashed(plan, parallelism, batch);
  if (times != nullptr) AddTimes(times->Now() - start, *times);
}

void BatchSelector::SelectHashed(const SelectionPlan& plan, Parallelism parallelism,
                                 const HeadBatch& batch) {
  const int64_t num_tables = plan.index->family().num_tables();
  // The rows of the tail are drawn by tail_key itself.
  constexpr uint64_t kCandidatesPart = 1;
  const uint64_t draw_key = DeriveKey(plan.tail_key, kCandidatesPart);
  queries_.resize(batch.batch());
  for (int64_t sample = 0; sample < batch.batch(); ++sample) {
    HashQuery& query = queries_[sample];
    query.fingerprints =
        absl::MakeConstSpan(batch.fingerprints)
            .subspan(static_cast<size_t>(sample * num_tables), static_cast<size_t>(num_tables));
    query.labels = given_.Of(sample);
    query.judge_labels = false;
    query.drawn = plan.drawn;
    query.draw_key = DeriveKey(draw_key, static_cast<uint64_t>(sample));
  }
  for (const uint32_t sample : batch.recall_samples) queries_[sample].judge_labels = true;
  const absl::Span<Selection> selections = absl::MakeSpan(selections_).subspan(0, queries_.size());
  if (plan.proposals > 0) {
    plan.index->SelectTogether(queries_, plan.max_active, plan.proposals, parallelism,
                               absl::MakeSpan(select_scratch_), pool_, selections);
  } else {
    plan.index->SelectEach(queries_, plan.max_active, parallelism, absl::MakeSpan(select_scratch_),
                           selections);
  }
}

// Deals the time of all threads' selections in proportion to what each part took on them.
void BatchSelector::AddTimes(absl::Duration elapsed, StageTimes& times) {
  absl::Duration lookup;
  absl::Duration ranking;
  for (SelectScratch& scratch : select_scratch_) {
    lookup += std::exchange(scratch.lookup_time, absl::ZeroDuration());
    ranking += std::exchange(scratch.ranking_time, absl::ZeroDuration());
  }
  const double both = absl::ToDoubleSeconds(lookup + ranking);
  const absl::Duration share =
      both > 0 ? elapsed * (absl::ToDoubleSeconds(lookup) / both) : elapsed;
  times.Add(Stage::kLookup, share);
  times.Add(Stage::kRanking, elapsed - share);
}

void BatchSelector::DrawShared(const SelectionPlan& plan) {
  const int64_t num_shared = plan.every_row ? plan.num_rows : plan.tail_rows;
  if (!is_shared_.empty()) {
    for (const LocalRow row : shared_rows_) is_shared_[row.value()] = 0;
  }
  tail_sample_.Draw(plan.num_rows, num_shared, plan.tail_key, shared_rows_);
  if (plan.num_absent > 0) {
    std::erase_if(shared_rows_, [&](LocalRow row) { return plan.absent[row.value()] != 0; });
  }
  if (!weighted_) return;
  is_shared_.resize(plan.num_rows, 0);
  for (const LocalRow row : shared_rows_) is_shared_[row.value()] = 1;
}

void BatchSelector::CountPairs(int64_t batch) {
  first_pair_.assign(batch + 1, 0);
  left_out_pairs_ = 0;
  for (int64_t sample = 0; sample < batch; ++sample) {
    const Selection& selection = selections_[sample];
    auto pairs = static_cast<int64_t>(selection.active.size());
    if (given_.has_weights()) {
      const uint32_t first = given_.offsets()[sample];
      for (uint32_t i = first; i < given_.offsets()[sample + 1]; ++i) {
        if (!given_.IsLeftOut(i)) continue;
        const bool is_shared = IsShared(selection.active[i - first]);
        pairs -= is_shared ? 0 : 1;
        left_out_pairs_ += is_shared ? 1 : 0;
      }
    }
    for (const LocalRow row : selection.left_out) {
      pairs += IsShared(row) ? 1 : 0;
      left_out_pairs_ += IsShared(row) ? 1 : 0;
    }
    first_pair_[sample + 1] = first_pair_[sample] + pairs;
  }
}

void BatchSelector::WriteKeys(int64_t batch, Parallelism parallelism) {
  const absl::Span<uint64_t> keys = inversion_.ResizeKeys(first_pair_.back());
  ParallelFor(parallelism, batch, /*grain=*/16, [&](int64_t sample, int) {
    const Selection& selection = selections_[sample];
    const std::vector<LocalRow>& active = selection.active;  // what is given comes first
    const size_t given = given_.Of(sample).size();
    const uint32_t first = given_.offsets()[sample];
    const uint32_t tag = static_cast<uint32_t>(sample) << kKindBits;
    uint64_t* key = keys.data() + first_pair_[sample];
    for (size_t i = 0; i < given; ++i) {
      const bool left_out = given_.IsLeftOut(first + i);
      if (left_out && !IsShared(active[i])) continue;
      const uint32_t kind = left_out ? kLeftOut : given_.IsLabel(first + i) ? kLabel : kActive;
      *key++ = BatchInversion::Key(active[i], tag | kind);
    }
    const size_t drawn = active.size() - static_cast<size_t>(selection.drawn);
    for (size_t i = given; i < active.size(); ++i) {
      *key++ = BatchInversion::Key(active[i], tag | (i < drawn ? kActive : kDrawn));
    }
    for (const LocalRow row : selection.left_out) {
      if (IsShared(row)) *key++ = BatchInversion::Key(row, tag | kLeftOut);
    }
  });
}

void BatchSelector::SplitTags(Parallelism parallelism, HeadContext& context) const {
  const absl::Span<const uint32_t> tags = inversion_.tags();
  const auto size = static_cast<int64_t>(tags.size());
  context.samples.resize(tags.size());
  context.is_label.resize(tags.size());
  context.pair_weights.resize(weighted_ ? tags.size() : 0);
  const int64_t grains = (size + kPairsPerGrain - 1) / kPairsPerGrain;
  ParallelFor(parallelism, grains, /*grain=*/1, [&](int64_t grain, int) {
    const int64_t begin = grain * kPairsPerGrain;
    const int64_t end = std::min(size, begin + kPairsPerGrain);
    for (int64_t k = begin; k < end; ++k) {
      context.samples[k] = tags[k] >> kKindBits;
      context.is_label[k] = KindOf(tags[k]) == kLabel ? 1 : 0;
    }
    for (int64_t k = begin; weighted_ && k < end; ++k) {
      const uint32_t kind = KindOf(tags[k]);
      const Selection& selection = selections_[context.samples[k]];
      context.pair_weights[k] = kind == kLeftOut ? 0.0f
                                : kind != kDrawn ? 1.0f
                                                 : static_cast<float>(selection.drawn_from) /
                                                       static_cast<float>(selection.drawn);
    }
  });
}

// The union of the rows with pairs and of the shared rows, both ascending.
void BatchSelector::MergeRows(int64_t batch, HeadContext& context) {
  const absl::Span<const LocalRow> paired = inversion_.rows();
  const absl::Span<const uint32_t> offsets = inversion_.offsets();
  context.rows.clear();
  context.is_shared.clear();
  context.pair_offsets.assign(1, 0);
  context.score_offsets.assign(1, 0);
  size_t i = 0;
  size_t j = 0;
  while (i < paired.size() || j < shared_rows_.size()) {
    const bool has_pairs =
        i < paired.size() && (j == shared_rows_.size() || paired[i] <= shared_rows_[j]);
    const bool is_shared = j < shared_rows_.size() && (!has_pairs || paired[i] == shared_rows_[j]);
    context.rows.push_back(has_pairs ? paired[i] : shared_rows_[j]);
    context.is_shared.push_back(is_shared ? 1 : 0);
    i += has_pairs ? 1 : 0;
    j += is_shared ? 1 : 0;
    const uint64_t num_scores = is_shared ? batch : offsets[i] - offsets[i - 1];
    context.pair_offsets.push_back(offsets[i]);
    context.score_offsets.push_back(context.score_offsets.back() + num_scores);
  }
}

// Rows ascend in the context and within what a sample was given, so that one pass meets them all.
void BatchSelector::TakeExplicit(HeadContext& context) {
  logit_offsets_.clear();
  if (!given_.has_logit_offsets() && !given_.has_weights()) return;
  if (given_.has_logit_offsets()) logit_offsets_.assign(context.samples.size(), 0.0f);
  next_given_.assign(given_.offsets().begin(), given_.offsets().end() - 1);
  for (size_t i = 0; i < context.rows.size(); ++i) {
    for (uint32_t k = context.pair_offsets[i]; k < context.pair_offsets[i + 1]; ++k) {
      const uint32_t sample = context.samples[k];
      const absl::Span<const LocalRow> given = given_.Of(sample);
      const uint32_t first = given_.offsets()[sample];
      uint32_t& next = next_given_[sample];
      while (next - first < given.size() && given[next - first] < context.rows[i]) ++next;
      if (next - first == given.size() || given[next - first] != context.rows[i]) continue;
      if (given_.has_logit_offsets()) logit_offsets_[k] = given_.LogitOffset(next);
      if (given_.has_weights()) context.pair_weights[k] = given_.Weight(next);
    }
  }
}

// The shared rows stand for all rows that are there for which a sample's pairs do not. When all of
// them are shared and pairs stand for themselves the weight is exactly 1, and the sum is the whole
// softmax.
void BatchSelector::WeighTail(const SelectionPlan& plan, HeadContext& context) {
  const int64_t batch = context.batch.batch();
  active_shared_.assign(batch, 0);
  for (size_t i = 0; i < context.rows.size(); ++i) {
    if (context.is_shared[i] == 0) continue;
    for (const uint32_t sample : context.SamplesOf(i)) ++active_shared_[sample];
  }
  represented_.assign(batch, 0.0);
  for (int64_t sample = 0; sample < batch && !weighted_; ++sample) {
    represented_[sample] = static_cast<double>(selections_[sample].active.size());
  }
  for (size_t k = 0; k < context.pair_weights.size(); ++k) {
    represented_[context.samples[k]] += context.pair_weights[k];
  }
  // Labels that the data still has.
  for (size_t i = 0; i < context.rows.size() && plan.num_absent > 0; ++i) {
    if (plan.absent[context.rows[i].value()] == 0) continue;
    for (uint32_t k = context.pair_offsets[i]; k < context.pair_offsets[i + 1]; ++k) {
      represented_[context.samples[k]] -= weighted_ ? context.pair_weights[k] : 1.0;
    }
  }
  context.tail_weights.resize(batch);
  for (int64_t sample = 0; sample < batch; ++sample) {
    // Weights may add up to more than there is.
    const double rest =
        std::max(0.0, static_cast<double>(plan.num_rows - plan.num_absent) - represented_[sample]);
    const int64_t drawn = static_cast<int64_t>(shared_rows_.size()) - active_shared_[sample];
    context.tail_weights[sample] =
        drawn == 0 ? 0.0f : static_cast<float>(rest) / static_cast<float>(drawn);
  }
}

}  // namespace dslide
