#include "core/model/batch_selector.h"

#include <algorithm>
#include <utility>

namespace dslide {
namespace {

constexpr int64_t kPairsPerGrain = 1 << 15;

}  // namespace

int64_t BatchSelector::Select(const SelectionPlan& plan, Parallelism parallelism,
                              HeadContext& context, StageTimes* times) {
  const int64_t batch = context.batch.batch();
  SelectActive(plan, parallelism, context.batch, times);
  const ScopedStage stage(times, Stage::kInversion);
  WriteKeys(context.batch, parallelism);
  inversion_.Invert(plan.num_rows, parallelism);
  const int64_t num_shared = plan.index == nullptr ? plan.num_rows : plan.tail_rows;
  tail_sample_.Draw(plan.num_rows, num_shared, plan.tail_key, shared_rows_);
  SplitTags(parallelism, context);
  MergeRows(batch, context);
  WeighTail(plan, context);
  return plan.index == nullptr ? batch * plan.num_rows : first_pair_[batch];
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
      const absl::Span<const LocalRow> labels = batch.LabelsOf(sample);
      selections_[sample].active.assign(labels.begin(), labels.end());
    }
    return;
  }
  for (SelectScratch& scratch : select_scratch_) {
    scratch.clock = times == nullptr ? nullptr : &times->clock();
  }
  const absl::Duration start = times == nullptr ? absl::ZeroDuration() : times->Now();
  const int64_t num_tables = plan.index->family().num_tables();
  queries_.resize(batch.batch());
  for (int64_t sample = 0; sample < batch.batch(); ++sample) {
    queries_[sample] = {
        absl::MakeConstSpan(batch.fingerprints)
            .subspan(static_cast<size_t>(sample * num_tables), static_cast<size_t>(num_tables)),
        batch.LabelsOf(sample), /*judge_labels=*/false};
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
  if (times != nullptr) AddTimes(times->Now() - start, *times);
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

// A pair's tag is its sample, times two, plus one for a label.
void BatchSelector::WriteKeys(const HeadBatch& batch, Parallelism parallelism) {
  first_pair_.assign(batch.batch() + 1, 0);
  for (int64_t sample = 0; sample < batch.batch(); ++sample) {
    first_pair_[sample + 1] =
        first_pair_[sample] + static_cast<int64_t>(selections_[sample].active.size());
  }
  const absl::Span<uint64_t> keys = inversion_.ResizeKeys(first_pair_.back());
  ParallelFor(parallelism, batch.batch(), /*grain=*/16, [&](int64_t sample, int) {
    const absl::Span<const LocalRow> labels = batch.LabelsOf(sample);
    const uint32_t tag = static_cast<uint32_t>(sample) << 1;
    const std::vector<LocalRow>& active = selections_[sample].active;  // the labels come first
    uint64_t* const key = keys.data() + first_pair_[sample];
    for (size_t i = 0; i < labels.size(); ++i) key[i] = BatchInversion::Key(labels[i], tag | 1);
    for (size_t i = labels.size(); i < active.size(); ++i) {
      key[i] = BatchInversion::Key(active[i], tag);
    }
  });
}

void BatchSelector::SplitTags(Parallelism parallelism, HeadContext& context) const {
  const absl::Span<const uint32_t> tags = inversion_.tags();
  const auto size = static_cast<int64_t>(tags.size());
  context.samples.resize(tags.size());
  context.is_label.resize(tags.size());
  const int64_t grains = (size + kPairsPerGrain - 1) / kPairsPerGrain;
  ParallelFor(parallelism, grains, /*grain=*/1, [&](int64_t grain, int) {
    const int64_t end = std::min(size, (grain + 1) * kPairsPerGrain);
    for (int64_t k = grain * kPairsPerGrain; k < end; ++k) {
      context.samples[k] = tags[k] >> 1;
      context.is_label[k] = tags[k] & 1;
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

// The shared rows stand for all inactive rows of a sample. When all rows are shared the weight is
// exactly 1, and the sum is the whole softmax.
void BatchSelector::WeighTail(const SelectionPlan& plan, HeadContext& context) {
  const int64_t batch = context.batch.batch();
  active_shared_.assign(batch, 0);
  for (size_t i = 0; i < context.rows.size(); ++i) {
    if (context.is_shared[i] == 0) continue;
    for (const uint32_t sample : context.SamplesOf(i)) ++active_shared_[sample];
  }
  context.tail_weights.resize(batch);
  for (int64_t sample = 0; sample < batch; ++sample) {
    const int64_t inactive =
        plan.num_rows - static_cast<int64_t>(selections_[sample].active.size());
    const int64_t drawn = static_cast<int64_t>(shared_rows_.size()) - active_shared_[sample];
    context.tail_weights[sample] =
        drawn == 0 ? 0.0f : static_cast<float>(inactive) / static_cast<float>(drawn);
  }
}

}  // namespace dslide
