// Heads whose active rows a client names, against plain loops over the request.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/counter_rng.h"
#include "core/engine/math/kernels.h"
#include "core/engine/model/head_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;

constexpr int64_t kNamedRows = 400;
constexpr int64_t kNamedDim = 24;
constexpr int64_t kNamedBatch = 20;
constexpr int64_t kNamedAtMost = 25;  // of a sample, at most

struct NamingShape {
  std::string name = {};
  HeadLoss loss = HeadLoss::kSoftmax;
  int64_t max_active = 40;  // 0: no hash tables
  int64_t tail_rows = 64;
  bool fingerprints = false;
  bool weights = true;
};

std::unique_ptr<HeadTable> MakeNamingHead(const NamingShape& shape) {
  TableSpec spec;
  spec.name = "out";
  spec.role = TableRole::kHead;
  spec.rows = kNamedRows;
  spec.dim = kNamedDim;
  spec.num_slots = 32;
  spec.optimizer.learning_rate = 0.05;
  spec.head.loss = shape.loss;
  spec.head.max_active = shape.max_active;
  spec.head.tail_rows = shape.tail_rows;
  spec.head.hash.codes_per_table = 5;
  spec.head.hash.num_tables = 6;
  spec.head.hash.rebuild_every_steps = 3;
  const double weight = 1.0;
  const auto map = SlotMap::Deal(spec.num_slots, {&weight, 1});
  auto head = HeadTable::Create(spec, 1, ShardRows(*map, ShardId(0), spec.rows), Parallelism{1});
  EXPECT_TRUE(head.ok()) << head.status();
  return *std::move(head);
}

std::set<LocalRow> DrawNamedRows(int64_t count, CounterRng& rng) {
  std::set<LocalRow> rows;
  for (int64_t i = 0; i < count; ++i) {
    rows.insert(LocalRow(static_cast<uint32_t>(rng.NextBelow(kNamedRows))));
  }
  return rows;
}

// Two labels a sample, of which about half are named, too; one in five of the rows is left out.
HeadBatch MakeNamingBatch(const HeadTable& head, const NamingShape& shape, uint64_t key) {
  CounterRng rng(key);
  HeadBatch batch;
  ExplicitRows<LocalRow>& named = batch.explicit_rows;
  batch.label_offsets = named.offsets = {0};
  for (int64_t s = 0; s < kNamedBatch; ++s) {
    for (int64_t i = 0; i < kNamedDim; ++i)
      batch.hidden.push_back(std::max(0.0f, rng.NextGaussian()));
    const std::set<LocalRow> labels = DrawNamedRows(2, rng);
    std::set<LocalRow> rows = DrawNamedRows(static_cast<int64_t>(rng.NextBelow(kNamedAtMost)), rng);
    if (rng.NextBelow(2) == 0) rows.insert(*labels.begin());
    batch.labels.insert(batch.labels.end(), labels.begin(), labels.end());
    batch.label_offsets.push_back(static_cast<uint32_t>(batch.labels.size()));
    batch.label_targets.push_back(shape.loss == HeadLoss::kSigmoid ? 1.0f : 1.0f / labels.size());
    named.rows.insert(named.rows.end(), rows.begin(), rows.end());
    named.offsets.push_back(static_cast<uint32_t>(named.rows.size()));
  }
  for (size_t i = 0; i < named.rows.size(); ++i) {
    named.logit_offsets.push_back(2.0f * rng.NextGaussian());
    if (!shape.weights) continue;
    named.weights.push_back(rng.NextBelow(5) == 0 ? 0.0f : 0.25f * (1 + rng.NextBelow(20)));
  }
  if (shape.fingerprints) {
    batch.fingerprints.resize(kNamedBatch * head.index()->family().num_tables());
    head.index()->family().HashQueries(batch.hidden, kNamedBatch, Parallelism{1},
                                       absl::MakeSpan(batch.fingerprints));
  }
  return batch;
}

// One term of a sample's sum.
struct NamedTerm {
  double weight = 0.0;
  float logit_offset = 0.0f;
};

// What the request says of a row of a sample; none where it does not name it.
const NamedTerm* FindNamed(const HeadBatch& batch, int64_t sample, LocalRow row, NamedTerm& term) {
  const ExplicitRows<LocalRow>& named = batch.explicit_rows;
  for (uint32_t i = named.offsets[sample]; i < named.offsets[sample + 1]; ++i) {
    if (named.rows[i] != row) continue;
    term = {named.weights.empty() ? 1.0 : named.weights[i], named.logit_offsets[i]};
    return &term;
  }
  return nullptr;
}

bool IsLabelOf(const HeadBatch& batch, int64_t sample, LocalRow row) {
  const absl::Span<const LocalRow> labels = batch.LabelsOf(sample);
  return std::find(labels.begin(), labels.end(), row) != labels.end();
}

class ExplicitRowsTest : public ::testing::TestWithParam<NamingShape> {
 protected:
  // The terms of a sample as the contract says, in plain loops over all rows.
  std::map<LocalRow, NamedTerm> TermsOf(const HeadTable& head, const HeadBatch& batch,
                                        const HeadContext& context, int64_t sample) {
    std::set<LocalRow> hashed;
    if (!batch.fingerprints.empty()) hashed = HashedOf(head, batch, sample);
    std::set<LocalRow> shared;
    for (size_t i = 0; i < context.rows.size(); ++i) {
      if (context.is_shared[i] != 0) shared.insert(context.rows[i]);
    }
    std::map<LocalRow, NamedTerm> terms;
    double represented = 0.0;
    int64_t tail = 0;
    for (uint32_t r = 0; r < kNamedRows; ++r) {
      const LocalRow row(r);
      NamedTerm term;
      const bool named = FindNamed(batch, sample, row, term) != nullptr;
      if (IsLabelOf(batch, sample, row)) term.weight = 1.0;
      const bool active = named || IsLabelOf(batch, sample, row) || hashed.count(row) > 0;
      if (active && !named) term.weight = 1.0;
      represented += active ? term.weight : 0.0;
      if (active) terms[row] = term;
      tail += !active && shared.count(row) > 0 ? 1 : 0;
    }
    const double tail_weight = tail == 0 ? 0.0 : std::max(0.0, kNamedRows - represented) / tail;
    EXPECT_FLOAT_EQ(context.tail_weights[sample], tail_weight);
    for (const LocalRow row : shared) {
      if (terms.count(row) == 0) terms[row] = {tail_weight, 0.0f};
    }
    return terms;
  }

  std::set<LocalRow> HashedOf(const HeadTable& head, const HeadBatch& batch, int64_t sample) {
    std::set<LocalRow> given(batch.LabelsOf(sample).begin(), batch.LabelsOf(sample).end());
    const ExplicitRows<LocalRow>& named = batch.explicit_rows;
    given.insert(named.rows.begin() + named.offsets[sample],
                 named.rows.begin() + named.offsets[sample + 1]);
    const std::vector<LocalRow> sorted(given.begin(), given.end());
    SelectScratch scratch;
    Selection selection;
    head.index()->Select(absl::MakeConstSpan(batch.fingerprints).subspan(sample * 6, 6), sorted,
                         GetParam().max_active, scratch, selection);
    return {selection.active.begin() + static_cast<int64_t>(sorted.size()), selection.active.end()};
  }
};

// A logit is a sum of 24 products, and a sample's sum has at most some hundred terms of relative
// error 2^-22 each.
TEST_P(ExplicitRowsTest, SumsAndLabelLogitsAreThoseOfPlainLoops) {
  const auto head = MakeNamingHead(GetParam());
  const bool softmax = GetParam().loss == HeadLoss::kSoftmax;
  const HeadBatch batch = MakeNamingBatch(*head, GetParam(), 3);
  HeadContext context;
  HeadForwardOutput output;
  head->Forward(batch, 5, Parallelism{2}, context, output);
  for (int64_t s = 0; s < kNamedBatch; ++s) {
    const auto logit = [&](LocalRow row, float offset) {
      return head->store().Bias(row) + offset +
             Dot(head->store().Weights(row), batch.hidden.data() + s * kNamedDim, kNamedDim);
    };
    const double max_logit = output.max_logits[s];
    double sum = 0.0;
    for (const auto& [row, term] : TermsOf(*head, batch, context, s)) {
      const double value = logit(row, term.logit_offset);
      if (softmax && term.weight > 0.0) {
        EXPECT_LE(value, max_logit + 1e-5);
      }
      sum += term.weight * (softmax ? std::exp(value - max_logit) : std::log1p(std::exp(value)));
    }
    EXPECT_NEAR(output.exp_sums[s], sum, 2e-5 * sum) << "sample " << s;
    for (uint32_t i = batch.label_offsets[s]; i < batch.label_offsets[s + 1]; ++i) {
      NamedTerm term;
      FindNamed(batch, s, batch.labels[i], term);
      EXPECT_FLOAT_EQ(output.label_logits[i], logit(batch.labels[i], term.logit_offset));
    }
  }
}

TEST_P(ExplicitRowsTest, PairsAreTheNamedRowsAndTheLabels) {
  if (GetParam().fingerprints) return;
  const auto head = MakeNamingHead(GetParam());
  const HeadBatch batch = MakeNamingBatch(*head, GetParam(), 3);
  HeadContext context;
  HeadForwardOutput output;
  head->Forward(batch, 5, Parallelism{2}, context, output);
  std::set<std::pair<uint32_t, LocalRow>> expected;
  for (uint32_t s = 0; s < kNamedBatch; ++s) {
    for (uint32_t r = 0; r < kNamedRows; ++r) {
      NamedTerm term;
      const bool named = FindNamed(batch, s, LocalRow(r), term) != nullptr && term.weight > 0.0;
      if (named || IsLabelOf(batch, s, LocalRow(r))) expected.insert({s, LocalRow(r)});
    }
  }
  std::set<std::pair<uint32_t, LocalRow>> found;
  for (size_t i = 0; i < context.rows.size(); ++i) {
    for (uint32_t k = context.pair_offsets[i]; k < context.pair_offsets[i + 1]; ++k) {
      if (context.PairWeight(k) == 0.0f) {
        EXPECT_EQ(context.is_shared[i], 1) << "nobody needs a row that is in no sum";
      } else {
        found.insert({context.samples[k], context.rows[i]});
      }
    }
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(output.active_pairs, static_cast<int64_t>(expected.size()));
}

TEST_P(ExplicitRowsTest, EveryNumberOfThreadsGivesTheSameBits) {
  std::vector<uint64_t> digests;
  std::vector<std::vector<float>> answers;
  for (const int threads : {1, 2, 3, 5}) {
    const auto head = MakeNamingHead(GetParam());
    HeadContext context;
    HeadForwardOutput output;
    std::vector<float> gradient(kNamedBatch * kNamedDim);
    for (uint64_t step = 1; step < 5; ++step) {
      head->Forward(MakeNamingBatch(*head, GetParam(), step), step, Parallelism{threads}, context,
                    output);
      std::vector<float> log_partitions;
      for (int64_t s = 0; s < kNamedBatch; ++s) {
        log_partitions.push_back(output.max_logits[s] + std::log(output.exp_sums[s]));
      }
      EXPECT_EQ(head->Backward(context, log_partitions, 0.1f, 1e4f, Parallelism{threads},
                               absl::MakeSpan(gradient)),
                0);
    }
    digests.push_back(head->store().Digest(Parallelism{1}));
    answers.push_back(output.exp_sums);
    answers.back().insert(answers.back().end(), gradient.begin(), gradient.end());
  }
  EXPECT_THAT(digests, Each(digests[0]));
  EXPECT_THAT(answers, Each(answers[0]));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ExplicitRowsTest,
    ::testing::Values(NamingShape{.name = "Softmax"},
                      NamingShape{.name = "Sigmoid", .loss = HeadLoss::kSigmoid},
                      NamingShape{.name = "WithoutHashTables", .max_active = 0},
                      NamingShape{.name = "WithoutTail", .tail_rows = 0},
                      NamingShape{.name = "TailOfAllRows", .tail_rows = kNamedRows},
                      NamingShape{.name = "WithoutWeights", .weights = false},
                      NamingShape{.name = "BesideHashing", .fingerprints = true},
                      NamingShape{.name = "BesideHashingSigmoid",
                                  .loss = HeadLoss::kSigmoid,
                                  .max_active = 100,
                                  .fingerprints = true}),
    [](const auto& info) { return info.param.name; });

HeadForwardOutput ForwardNaming(HeadTable& head, HeadBatch batch, HeadContext& context) {
  HeadForwardOutput output;
  head.Forward(std::move(batch), 5, Parallelism{1}, context, output);
  return output;
}

TEST(ExplicitRowsHeadTest, ATailOfAllRowsIsTheExactSoftmaxWhateverIsNamed) {
  const NamingShape shape{.max_active = 0, .tail_rows = kNamedRows, .weights = false};
  const auto head = MakeNamingHead(shape);
  HeadBatch batch = MakeNamingBatch(*head, shape, 3);
  batch.explicit_rows.logit_offsets.clear();
  HeadBatch nothing_named = batch;
  nothing_named.explicit_rows = {};
  HeadContext context;
  const HeadForwardOutput named = ForwardNaming(*head, batch, context);
  EXPECT_THAT(context.tail_weights, Each(1.0f));
  EXPECT_THAT(context.pair_weights, IsEmpty()) << "all are 1";
  HeadContext exact;
  const HeadForwardOutput all = ForwardNaming(*head, nothing_named, exact);
  EXPECT_EQ(named.exp_sums, all.exp_sums);
  EXPECT_EQ(named.label_logits, all.label_logits);
  EXPECT_LT(named.active_pairs, all.active_pairs);
}

TEST(ExplicitRowsHeadTest, AContextHoldsWeightsAndNotTheRequest) {
  const NamingShape shape{.tail_rows = 0};
  const auto head = MakeNamingHead(shape);
  HeadContext weighted;
  ForwardNaming(*head, MakeNamingBatch(*head, shape, 3), weighted);
  EXPECT_TRUE(weighted.batch.explicit_rows.empty());
  HeadContext without = weighted;
  without.pair_weights.clear();
  EXPECT_EQ(weighted.memory_bytes() - without.memory_bytes(),
            static_cast<int64_t>(4 * weighted.samples.size()));
}

TEST(ExplicitRowsHeadTest, AnEmptySampleHasItsLabelsAndTheTail) {
  const NamingShape shape;
  const auto head = MakeNamingHead(shape);
  HeadBatch batch = MakeNamingBatch(*head, shape, 3);
  batch.explicit_rows = {};
  batch.explicit_rows.offsets.assign(kNamedBatch + 1, 0);
  HeadContext context;
  const HeadForwardOutput output = ForwardNaming(*head, batch, context);
  EXPECT_EQ(output.active_pairs, static_cast<int64_t>(batch.labels.size()));
  EXPECT_EQ(output.distinct_rows, static_cast<int64_t>(context.rows.size()));
}

TEST(ExplicitRowsHeadTest, WeightsBeyondTheRowsLeaveTheTailNothing) {
  const NamingShape shape;
  const auto head = MakeNamingHead(shape);
  HeadBatch batch = MakeNamingBatch(*head, shape, 3);
  std::fill(batch.explicit_rows.weights.begin(), batch.explicit_rows.weights.end(),
            kMaxExplicitWeight);
  HeadContext context;
  const HeadForwardOutput output = ForwardNaming(*head, batch, context);
  for (int64_t s = 0; s < kNamedBatch; ++s) {
    EXPECT_GE(context.tail_weights[s], 0.0f);
    EXPECT_TRUE(std::isfinite(output.exp_sums[s]));
  }
  EXPECT_THAT(context.tail_weights, ::testing::Contains(0.0f));
}

TEST(ExplicitRowsHeadTest, RecallTellsWhetherTheBestRowsWereNamed) {
  const NamingShape shape{.weights = false};
  const auto head = MakeNamingHead(shape);
  HeadBatch batch = MakeNamingBatch(*head, shape, 3);
  const ScoredRows best = head->TopK(batch.hidden, kNamedBatch, 10, {}, Parallelism{1});
  // Of the best ten of each sample, every other one; offsets change nothing in who is best.
  ExplicitRows<LocalRow>& named = batch.explicit_rows;
  named = {};
  named.offsets = {0};
  for (int64_t s = 0; s < kNamedBatch; ++s) {
    std::set<LocalRow> rows;
    for (int64_t i = 0; i < 10; i += 2) {
      rows.insert(head->store().rows().ToLocal(best.rows[s * 10 + i]));
    }
    named.rows.insert(named.rows.end(), rows.begin(), rows.end());
    named.offsets.push_back(static_cast<uint32_t>(named.rows.size()));
    batch.recall_samples.push_back(static_cast<uint32_t>(s));
  }
  named.logit_offsets.assign(named.rows.size(), -50.0f);
  HeadContext context;
  const HeadForwardOutput output = ForwardNaming(*head, batch, context);
  ASSERT_EQ(static_cast<int64_t>(output.recall.size()), kNamedBatch);
  for (const RecallTop& top : output.recall) {
    for (size_t i = 0; i < 10; ++i) {
      EXPECT_EQ(top.rows[i], best.rows[top.sample * 10 + i]);
      EXPECT_EQ(top.logits[i], best.logits[top.sample * 10 + i]);
      EXPECT_EQ(top.found[i], i % 2 == 0 ? 1 : 0);
    }
  }
}

}  // namespace
}  // namespace dslide
