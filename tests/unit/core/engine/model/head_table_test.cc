#include "core/engine/model/head_table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "core/base/counter_rng.h"
#include "core/engine/math/kernels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

using ::testing::Each;
using ::testing::IsSubsetOf;

constexpr int64_t kHeadRows = 600;
constexpr int64_t kHeadDim = 24;
constexpr int64_t kHeadTableBatch = 20;

TableSpec MakeSpec(int64_t max_active, int64_t tail_rows) {
  TableSpec spec;
  spec.name = "out";
  spec.role = TableRole::kHead;
  spec.rows = kHeadRows;
  spec.dim = kHeadDim;
  spec.num_slots = 32;
  spec.optimizer.learning_rate = 0.05;
  spec.head.max_active = max_active;
  spec.head.tail_rows = tail_rows;
  spec.head.hash.codes_per_table = 5;
  spec.head.hash.num_tables = 6;
  spec.head.hash.rebuild_every_steps = 3;
  return spec;
}

std::unique_ptr<HeadTable> MakeHead(const TableSpec& spec, int64_t shard = 0, int64_t shards = 1) {
  const std::vector<double> weights(shards, 1.0);
  const auto map = SlotMap::Deal(spec.num_slots, weights);
  auto head = HeadTable::Create(
      spec, 1, ShardRows(*map, ShardId(static_cast<int32_t>(shard)), spec.rows), Parallelism{1});
  EXPECT_TRUE(head.ok()) << head.status();
  return *std::move(head);
}

// Rows and samples lie on a few directions, so that hashing finds something.
HeadBatch MakeBatch(const HeadTable& head, uint64_t key, int64_t labels_per_sample = 2) {
  CounterRng rng(key);
  HeadBatch batch;
  batch.label_offsets = {0};
  for (int64_t s = 0; s < kHeadTableBatch; ++s) {
    for (int64_t i = 0; i < kHeadDim; ++i)
      batch.hidden.push_back(std::max(0.0f, rng.NextGaussian()));
    std::set<LocalRow> labels;
    for (int64_t i = 0; i < labels_per_sample; ++i) {
      labels.insert(LocalRow(static_cast<uint32_t>(rng.NextBelow(head.store().num_rows()))));
    }
    batch.labels.insert(batch.labels.end(), labels.begin(), labels.end());
    batch.label_offsets.push_back(static_cast<uint32_t>(batch.labels.size()));
    batch.label_targets.push_back(labels.empty() ? 0.0f : 1.0f / labels.size());
  }
  if (head.index() != nullptr) {
    batch.fingerprints.resize(kHeadTableBatch * head.index()->family().num_tables());
    head.index()->family().HashQueries(batch.hidden, kHeadTableBatch, Parallelism{1},
                                       absl::MakeSpan(batch.fingerprints));
  }
  return batch;
}

std::vector<std::set<LocalRow>> ActiveSets(const HeadContext& context) {
  std::vector<std::set<LocalRow>> active(context.batch.batch());
  for (size_t i = 0; i < context.rows.size(); ++i) {
    for (const uint32_t s : context.SamplesOf(i)) active[s].insert(context.rows[i]);
  }
  return active;
}

std::set<LocalRow> SharedRows(const HeadContext& context) {
  std::set<LocalRow> shared;
  for (size_t i = 0; i < context.rows.size(); ++i) {
    if (context.is_shared[i] != 0) shared.insert(context.rows[i]);
  }
  return shared;
}

void StepHead(HeadTable& head, HeadBatch batch, uint64_t tail_key, float scale = 0.1f) {
  HeadContext context;
  HeadForwardOutput output;
  head.Forward(std::move(batch), tail_key, Parallelism{1}, context, output);
  std::vector<float> log_partitions;
  for (int64_t s = 0; s < kHeadTableBatch; ++s) {
    log_partitions.push_back(output.max_logits[s] + std::log(output.exp_sums[s]));
  }
  std::vector<float> hidden_gradient(kHeadTableBatch * kHeadDim);
  EXPECT_EQ(head.Backward(context, log_partitions, scale, 1e4f, Parallelism{1},
                          absl::MakeSpan(hidden_gradient)),
            0);
}

TEST(HeadTableTest, ActiveSetsAreWhatTheIndexSelects) {
  const auto head = MakeHead(MakeSpec(40, 64));
  HeadContext context;
  HeadForwardOutput output;
  head->Forward(MakeBatch(*head, 1), 5, Parallelism{2}, context, output);
  const std::vector<std::set<LocalRow>> active = ActiveSets(context);
  SelectScratch scratch;
  Selection selection;
  int64_t pairs = 0;
  for (int64_t s = 0; s < kHeadTableBatch; ++s) {
    head->index()->Select(absl::MakeConstSpan(context.batch.fingerprints).subspan(s * 6, 6),
                          context.batch.LabelsOf(s), 40, scratch, selection);
    EXPECT_EQ(active[s], std::set<LocalRow>(selection.active.begin(), selection.active.end()));
    pairs += static_cast<int64_t>(selection.active.size());
  }
  EXPECT_EQ(output.active_pairs, pairs);
  EXPECT_EQ(output.distinct_rows, static_cast<int64_t>(context.rows.size()));
  EXPECT_TRUE(std::is_sorted(context.rows.begin(), context.rows.end()));
}

TEST(HeadTableTest, TailRowsAreSharedAndWeighWhatTheyStandFor) {
  const auto head = MakeHead(MakeSpec(40, 64));
  HeadContext context;
  HeadForwardOutput output;
  head->Forward(MakeBatch(*head, 1), 5, Parallelism{1}, context, output);
  const std::set<LocalRow> shared = SharedRows(context);
  EXPECT_EQ(shared.size(), 64u);
  const std::vector<std::set<LocalRow>> active = ActiveSets(context);
  for (int64_t s = 0; s < kHeadTableBatch; ++s) {
    int64_t inactive_shared = 0;
    for (const LocalRow row : shared) inactive_shared += active[s].count(row) == 0 ? 1 : 0;
    EXPECT_FLOAT_EQ(context.tail_weights[s],
                    static_cast<float>(kHeadRows - active[s].size()) / inactive_shared);
  }
  // Another key draws other rows, the same key the same ones.
  HeadContext again;
  head->Forward(context.batch, 5, Parallelism{1}, again, output);
  EXPECT_EQ(again.rows, context.rows);
  head->Forward(context.batch, 6, Parallelism{1}, again, output);
  EXPECT_NE(SharedRows(again), shared);
}

TEST(HeadTableTest, SumsAndLabelLogitsAreThoseOfPlainLoops) {
  for (const HeadLoss loss : {HeadLoss::kSoftmax, HeadLoss::kSigmoid}) {
    TableSpec spec = MakeSpec(40, 64);
    spec.head.loss = loss;
    const auto head = MakeHead(spec);
    for (uint64_t step = 0; step < 4; ++step) StepHead(*head, MakeBatch(*head, step), step);
    HeadContext context;
    HeadForwardOutput output;
    head->Forward(MakeBatch(*head, 9), 5, Parallelism{2}, context, output);
    const std::vector<std::set<LocalRow>> active = ActiveSets(context);
    const std::set<LocalRow> shared = SharedRows(context);
    const RowStore& store = head->store();
    for (int64_t s = 0; s < kHeadTableBatch; ++s) {
      const auto logit = [&](LocalRow row) {
        return store.Bias(row) +
               Dot(store.Weights(row), context.batch.hidden.data() + s * kHeadDim, kHeadDim);
      };
      std::set<LocalRow> touched = active[s];
      touched.insert(shared.begin(), shared.end());
      double largest = -std::numeric_limits<double>::infinity();
      for (const LocalRow row : touched) largest = std::max<double>(largest, logit(row));
      double sum = 0.0;
      for (const LocalRow row : touched) {
        const double weight = active[s].count(row) > 0 ? 1.0 : context.tail_weights[s];
        sum += weight * (loss == HeadLoss::kSoftmax ? std::exp(logit(row) - largest)
                                                    : std::log1p(std::exp(logit(row))));
      }
      EXPECT_FLOAT_EQ(output.max_logits[s], loss == HeadLoss::kSoftmax ? largest : 0.0);
      EXPECT_NEAR(output.exp_sums[s], sum, 1e-5 * sum);
      for (uint32_t i = context.batch.label_offsets[s]; i < context.batch.label_offsets[s + 1];
           ++i) {
        EXPECT_EQ(output.label_logits[i], logit(context.batch.labels[i]));
      }
    }
  }
}

TEST(HeadTableTest, LabelsAreNeverCut) {
  const auto head = MakeHead(MakeSpec(5, 0));
  HeadContext context;
  HeadForwardOutput output;
  head->Forward(MakeBatch(*head, 1, /*labels_per_sample=*/30), 5, Parallelism{1}, context, output);
  const std::vector<std::set<LocalRow>> active = ActiveSets(context);
  int64_t labels = 0;
  for (int64_t s = 0; s < kHeadTableBatch; ++s) {
    EXPECT_GT(context.batch.LabelsOf(s).size(), 5u);
    EXPECT_THAT(context.batch.LabelsOf(s), IsSubsetOf(active[s]));
    labels += static_cast<int64_t>(context.batch.LabelsOf(s).size());
  }
  EXPECT_EQ(std::count(context.is_label.begin(), context.is_label.end(), 1), labels);
}

TEST(HeadTableTest, ATailOfAllRowsIsTheExactSoftmax) {
  const auto exact = MakeHead(MakeSpec(0, 0));
  const auto hashed = MakeHead(MakeSpec(40, 5000));
  ASSERT_EQ(exact->index(), nullptr);
  HeadContext exact_context;
  HeadContext hashed_context;
  HeadForwardOutput expected;
  HeadForwardOutput output;
  exact->Forward(MakeBatch(*exact, 3), 5, Parallelism{1}, exact_context, expected);
  hashed->Forward(MakeBatch(*hashed, 3), 5, Parallelism{1}, hashed_context, output);
  EXPECT_EQ(output.max_logits, expected.max_logits);
  EXPECT_EQ(output.exp_sums, expected.exp_sums);
  EXPECT_EQ(output.label_logits, expected.label_logits);
  EXPECT_THAT(hashed_context.tail_weights, Each(1.0f));
  EXPECT_EQ(expected.active_pairs, kHeadTableBatch * kHeadRows);
  EXPECT_EQ(expected.distinct_rows, kHeadRows);
}

TEST(HeadTableTest, BudgetsFollowTheShareOfTheRows) {
  for (int64_t shard = 0; shard < 3; ++shard) {
    const auto head = MakeHead(MakeSpec(31, 64), shard, 3);
    HeadContext context;
    HeadForwardOutput output;
    head->Forward(MakeBatch(*head, 3, /*labels_per_sample=*/0), 5, Parallelism{1}, context, output);
    const double share = static_cast<double>(head->store().num_rows()) / kHeadRows;
    const auto part = [&](double rows) { return static_cast<int64_t>(std::ceil(rows * share)); };
    EXPECT_EQ(static_cast<int64_t>(SharedRows(context).size()), part(64));
    for (const auto& active : ActiveSets(context)) {
      EXPECT_LE(static_cast<int64_t>(active.size()), part(31));
    }
    EXPECT_GT(output.active_pairs, kHeadTableBatch * part(31) / 2)
        << "hashing finds nearly a full budget";
    EXPECT_EQ(
        head->Select(context.batch.fingerprints, kHeadTableBatch, 0, Parallelism{1}).rows.size(),
        static_cast<size_t>(output.active_pairs));
  }
  EXPECT_EQ(MakeHead(MakeSpec(1, 0), 0, 3)
                    ->Select(std::vector<uint32_t>(6, 0), 1, 1, Parallelism{1})
                    .offsets[1] <= 1,
            true);
}

TEST(HeadTableTest, AShardWithoutRowsTakesPart) {
  TableSpec spec = MakeSpec(10, 10);
  spec.rows = 1;
  const auto head = MakeHead(spec, 1, 2);
  ASSERT_EQ(head->store().num_rows(), 0);
  HeadContext context;
  HeadForwardOutput output;
  HeadBatch batch;
  batch.hidden.assign(2 * kHeadDim, 1.0f);
  batch.fingerprints.assign(2 * 6, 0);
  batch.label_offsets = {0, 0, 0};
  batch.label_targets = {0.5f, 1.0f};
  batch.recall_samples = {1};
  head->Forward(std::move(batch), 1, Parallelism{2}, context, output);
  EXPECT_THAT(output.max_logits, Each(-std::numeric_limits<float>::infinity()));
  EXPECT_THAT(output.exp_sums, Each(0.0f));
  EXPECT_TRUE(output.recall[0].rows.empty());
  std::vector<float> hidden_gradient(2 * kHeadDim, 1.0f);
  EXPECT_EQ(head->Backward(context, std::vector<float>{1.0f, 2.0f}, 1.0f, 1e4f, Parallelism{2},
                           absl::MakeSpan(hidden_gradient)),
            0);
  EXPECT_THAT(hidden_gradient, Each(0.0f));
  EXPECT_EQ(head->TopK(std::vector<float>(kHeadDim), 1, 2, {}, Parallelism{1}).rows,
            std::vector<RowId>(2, kNoRow));
}

TEST(HeadTableTest, RowsOutsideTheBatchKeepTheirBits) {
  const auto head = MakeHead(MakeSpec(20, 10));
  std::vector<std::vector<char>> before;
  for (uint32_t row = 0; row < kHeadRows; ++row) {
    const auto record = head->store().RecordSpan(LocalRow(row));
    before.emplace_back(record.begin(), record.end());
  }
  HeadContext context;
  HeadForwardOutput output;
  head->Forward(MakeBatch(*head, 1), 5, Parallelism{1}, context, output);
  StepHead(*head, context.batch, 5);
  const std::set<LocalRow> touched(context.rows.begin(), context.rows.end());
  ASSERT_LT(touched.size(), static_cast<size_t>(kHeadRows));
  for (uint32_t row = 0; row < kHeadRows; ++row) {
    const auto record = head->store().RecordSpan(LocalRow(row));
    EXPECT_EQ(std::vector<char>(record.begin(), record.end()) != before[row],
              touched.count(LocalRow(row)) > 0);
    EXPECT_EQ(head->store().LastStep(LocalRow(row)).value(), touched.count(LocalRow(row)));
  }
}

TEST(HeadTableTest, FixedBiasesStayWhileWeightsLearn) {
  TableSpec spec = MakeSpec(0, 0);
  const auto learnt = MakeHead(spec);
  spec.head.fixed_bias = true;
  const auto fixed = MakeHead(spec);
  for (HeadTable* head : {fixed.get(), learnt.get()}) StepHead(*head, MakeBatch(*head, 3), 1);
  for (LocalRow row(0); row.value() < kHeadRows; row = LocalRow(row.value() + 1)) {
    EXPECT_EQ(fixed->store().Bias(row), 0.0f);
    EXPECT_NE(learnt->store().Bias(row), 0.0f);
    EXPECT_EQ(fixed->store().Weights(row)[0], learnt->store().Weights(row)[0]);
  }
}

TEST(HeadTableTest, AContextIsOverwrittenWhole) {
  const auto head = MakeHead(MakeSpec(20, 10));
  HeadContext used;
  HeadForwardOutput output;
  head->Forward(MakeBatch(*head, 1, 30), 5, Parallelism{1}, used, output);
  head->Forward(MakeBatch(*head, 2), 6, Parallelism{1}, used, output);
  HeadContext fresh;
  HeadForwardOutput expected;
  head->Forward(MakeBatch(*head, 2), 6, Parallelism{1}, fresh, expected);
  EXPECT_EQ(used.rows, fresh.rows);
  EXPECT_EQ(used.samples, fresh.samples);
  EXPECT_EQ(used.scores, fresh.scores);
  EXPECT_EQ(used.tail_weights, fresh.tail_weights);
  EXPECT_EQ(output.exp_sums, expected.exp_sums);
  EXPECT_EQ(output.label_logits, expected.label_logits);
  EXPECT_GT(fresh.memory_bytes(), static_cast<int64_t>(fresh.scores.size() * sizeof(float)));
}

TEST(HeadTableTest, TablesAreBuiltOnScheduleOnly) {
  const auto head = MakeHead(MakeSpec(20, 64));
  const HeadBatch probe = MakeBatch(*head, 77, 0);
  const auto selected = [&] {
    return head->Select(probe.fingerprints, kHeadTableBatch, 0, Parallelism{1}).rows;
  };
  const std::vector<LocalRow> first = selected();
  StepHead(*head, MakeBatch(*head, 1), 1, 10.0f);
  StepHead(*head, MakeBatch(*head, 2), 2, 10.0f);
  EXPECT_EQ(selected(), first);
  EXPECT_EQ(head->applied().value(), 2);
  StepHead(*head, MakeBatch(*head, 3), 3, 10.0f);
  EXPECT_NE(selected(), first) << "three updates are a build";
}

TEST(HeadTableTest, ScatteredRowsAreHashedAgainOnSchedule) {
  const auto head = MakeHead(MakeSpec(20, 0));
  const HeadBatch probe = MakeBatch(*head, 77, 0);
  // Row 5 becomes the best row of the first query by far.
  std::vector<float> weights(probe.hidden.begin(), probe.hidden.begin() + kHeadDim);
  const auto row_is_selected = [&] {
    const auto candidates = head->Select(probe.fingerprints, 1, 0, Parallelism{1});
    return std::count(candidates.rows.begin(), candidates.rows.end(), LocalRow(5)) > 0;
  };
  ASSERT_FALSE(row_is_selected());
  const dslide::Step step(1);
  ASSERT_TRUE(head->store().ChangeWeights(LocalRow(5), RowStore::Change::kAssign, weights.data(),
                                          0.0f, head->store().BeginUpdate(step, 1e4f)));
  head->MarkDirty({LocalRow(5)});
  head->AdvanceStep(Parallelism{1});
  head->AdvanceStep(Parallelism{1});
  EXPECT_FALSE(row_is_selected());
  head->AdvanceStep(Parallelism{1});
  EXPECT_TRUE(row_is_selected());
}

TEST(HeadTableTest, ResetAfterLoadMakesEqualTables) {
  const TableSpec spec = MakeSpec(20, 64);
  const auto survivor = MakeHead(spec);
  for (uint64_t step = 0; step < 5; ++step) StepHead(*survivor, MakeBatch(*survivor, step), step);
  const auto restored = MakeHead(spec);
  for (uint32_t row = 0; row < kHeadRows; ++row) {
    ASSERT_TRUE(restored->store()
                    .SetRecord(LocalRow(row), survivor->store().RecordSpan(LocalRow(row)), 1e4f)
                    .ok());
  }
  survivor->ResetAfterLoad(survivor->applied(), Parallelism{1});
  restored->ResetAfterLoad(survivor->applied(), Parallelism{2});
  for (uint64_t step = 5; step < 30; ++step) {
    StepHead(*survivor, MakeBatch(*survivor, step), step);
    StepHead(*restored, MakeBatch(*restored, step), step);
    ASSERT_EQ(survivor->store().Digest(Parallelism{1}), restored->store().Digest(Parallelism{1}));
  }
  EXPECT_EQ(restored->applied().value(), 30);
}

TEST(HeadTableTest, SavedHashesGoOnAsTheTableThatHadThem) {
  TableSpec spec = MakeSpec(20, 64);
  spec.rows = 60'000;  // so many that tables are sorted in the background
  spec.head.hash.num_tables = 150;
  spec.head.hash.rebuild_every_steps = 8;
  const auto survivor = MakeHead(spec);
  // Two updates behind the start of a build, whose tables would serve two later.
  for (uint64_t step = 0; step < 10; ++step) StepHead(*survivor, MakeBatch(*survivor, step), step);
  survivor->SettleHashes();
  const auto restored = MakeHead(spec);
  for (uint32_t row = 0; row < spec.rows; ++row) {
    ASSERT_TRUE(restored->store()
                    .SetRecord(LocalRow(row), survivor->store().RecordSpan(LocalRow(row)), 1e4f)
                    .ok());
  }
  HeadHashes hashes = survivor->SaveHashes();
  EXPECT_THAT(hashes.dirty, ::testing::Contains(1)) << "rows have changed since they were hashed";
  ASSERT_TRUE(
      restored->RestoreAfterLoad(survivor->applied(), std::move(hashes), Parallelism{2}).ok());
  for (uint64_t step = 10; step < 30; ++step) {
    StepHead(*survivor, MakeBatch(*survivor, step), step);
    StepHead(*restored, MakeBatch(*restored, step), step);
    ASSERT_EQ(survivor->store().Digest(Parallelism{1}), restored->store().Digest(Parallelism{1}))
        << step;
  }
  EXPECT_EQ(restored->applied().value(), 30);
  HeadHashes wrong = MakeHead(MakeSpec(20, 64))->SaveHashes();
  EXPECT_FALSE(restored->RestoreAfterLoad(dslide::Step(30), std::move(wrong), {}).ok());
}

TEST(HeadTableTest, RecallTellsWhichOfTheBestRowsHashingFound) {
  const auto head = MakeHead(MakeSpec(40, 0));
  HeadBatch batch = MakeBatch(*head, 1, /*labels_per_sample=*/0);
  // The exact best row as a label: in the active set for sure, found only if hashing found it.
  const ScoredRows best = head->TopK(batch.hidden, kHeadTableBatch, 10, {}, Parallelism{1});
  for (int64_t s = 0; s < kHeadTableBatch; ++s) {
    batch.labels.push_back(head->store().rows().ToLocal(best.rows[s * 10]));
    batch.label_offsets[s + 1] = static_cast<uint32_t>(s + 1);
  }
  for (uint32_t s = 0; s < kHeadTableBatch; ++s)
    batch.recall_samples.push_back(kHeadTableBatch - 1 - s);
  HeadContext context;
  HeadForwardOutput output;
  head->Forward(batch, 5, Parallelism{2}, context, output);
  ASSERT_EQ(static_cast<int64_t>(output.recall.size()), kHeadTableBatch);
  SelectScratch scratch;
  Selection selection;
  int64_t found = 0;
  for (const RecallTop& top : output.recall) {
    head->index()->Select(absl::MakeConstSpan(batch.fingerprints).subspan(top.sample * 6, 6),
                          /*labels=*/{}, 40, scratch, selection);
    ASSERT_EQ(top.rows.size(), 10u);
    for (int64_t i = 0; i < 10; ++i) {
      EXPECT_EQ(top.rows[i], best.rows[top.sample * 10 + i]);
      EXPECT_EQ(top.logits[i], best.logits[top.sample * 10 + i]);
      const bool selected = std::count(selection.active.begin(), selection.active.end(),
                                       head->store().rows().ToLocal(top.rows[i])) > 0;
      if (i == 0) {
        EXPECT_EQ(top.found[i] != 0, selected) << "sample " << top.sample;
      } else {
        // The label may have taken the place of the last candidate.
        EXPECT_LE(top.found[i] != 0, selected) << "sample " << top.sample << " place " << i;
      }
      found += top.found[i];
    }
  }
  EXPECT_GT(found, 0);
  EXPECT_LT(found, kHeadTableBatch * 10);
}

TEST(HeadTableTest, HashedTopKIsTheBestOfTheCandidates) {
  const auto head = MakeHead(MakeSpec(40, 0));
  const HeadBatch batch = MakeBatch(*head, 1, 0);
  const ScoredRows hashed =
      head->TopK(batch.hidden, kHeadTableBatch, 3, batch.fingerprints, Parallelism{2});
  const ScoredRows exact = head->TopK(batch.hidden, kHeadTableBatch, kHeadRows, {}, Parallelism{2});
  EXPECT_FALSE(hashed.exact);
  EXPECT_TRUE(exact.exact);
  const auto candidates = head->Select(batch.fingerprints, kHeadTableBatch, 0, Parallelism{1});
  EXPECT_EQ(hashed.scored_rows, static_cast<int64_t>(candidates.rows.size()));
  for (int64_t s = 0; s < kHeadTableBatch; ++s) {
    std::set<RowId> selected;
    for (uint32_t i = candidates.offsets[s]; i < candidates.offsets[s + 1]; ++i) {
      selected.insert(head->store().rows().ToGlobal(candidates.rows[i]));
    }
    int64_t place = 0;
    for (int64_t i = 0; i < kHeadRows && place < 3; ++i) {
      if (selected.count(exact.rows[s * kHeadRows + i]) == 0) continue;
      EXPECT_EQ(hashed.rows[s * 3 + place], exact.rows[s * kHeadRows + i]);
      EXPECT_EQ(hashed.logits[s * 3 + place], exact.logits[s * kHeadRows + i]);
      ++place;
    }
  }
  const auto dense = MakeHead(MakeSpec(0, 0));
  EXPECT_TRUE(
      dense->TopK(batch.hidden, kHeadTableBatch, 3, batch.fingerprints, Parallelism{1}).exact);
}

TEST(HeadTableTest, WithoutAnIndexEveryRowIsSelected) {
  const auto dense = MakeHead(MakeSpec(0, 0));
  const auto all = dense->Select({}, 2, 0, Parallelism{1});
  EXPECT_EQ(all.offsets, (std::vector<uint32_t>{0, kHeadRows, 2 * kHeadRows}));
  EXPECT_EQ(all.rows[kHeadRows - 1], LocalRow(kHeadRows - 1));
  EXPECT_EQ(all.rows[kHeadRows], LocalRow(0));
}

TEST(HeadTableTest, RefusesSettingsThatItsPartsRefuse) {
  TableSpec spec = MakeSpec(10, 0);
  spec.optimizer.learning_rate = -1;
  const double weight = 1.0;
  const auto map = SlotMap::Deal(spec.num_slots, {&weight, 1});
  const ShardRows rows(*map, ShardId(0), spec.rows);
  EXPECT_EQ(HeadTable::Create(spec, 1, rows, Parallelism{1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  spec = MakeSpec(10, 0);
  spec.head.hash.num_tables = 257;
  EXPECT_EQ(HeadTable::Create(spec, 1, rows, Parallelism{1}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace dslide
