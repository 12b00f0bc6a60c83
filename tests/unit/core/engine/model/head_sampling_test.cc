// Heads that draw some of their hashed candidates.

#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "core/base/counter_rng.h"
#include "core/engine/model/head_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;

constexpr int64_t kSamplingRows = 600;
constexpr int64_t kSamplingDim = 24;
constexpr int64_t kSamplingBatch = 16;
constexpr int64_t kPlaces = 40;
constexpr int64_t kDrawnPlaces = 12;

std::unique_ptr<HeadTable> MakeSamplingHead(int64_t max_active, int64_t drawn, int64_t tail_rows,
                                            HeadLoss loss = HeadLoss::kSoftmax) {
  TableSpec spec;
  spec.name = "out";
  spec.role = TableRole::kHead;
  spec.rows = kSamplingRows;
  spec.dim = kSamplingDim;
  spec.num_slots = 32;
  spec.head.loss = loss;
  spec.head.max_active = max_active;
  spec.head.sampled_candidates = drawn;
  spec.head.tail_rows = tail_rows;
  spec.head.hash.codes_per_table = 4;
  spec.head.hash.num_tables = 6;
  spec.head.hash.rebuild_every_steps = 3;
  const double weight = 1.0;
  const auto map = SlotMap::Deal(spec.num_slots, {&weight, 1});
  auto head = HeadTable::Create(spec, 1, ShardRows(*map, ShardId(0), spec.rows), Parallelism{1});
  EXPECT_TRUE(head.ok()) << head.status();
  return *std::move(head);
}

HeadBatch MakeSamplingBatch(const HeadTable& head) {
  CounterRng rng(8);
  HeadBatch batch;
  batch.label_offsets = {0};
  for (int64_t s = 0; s < kSamplingBatch; ++s) {
    for (int64_t i = 0; i < kSamplingDim; ++i) {
      batch.hidden.push_back(std::max(0.0f, rng.NextGaussian()));
    }
    batch.labels.emplace_back(static_cast<uint32_t>(rng.NextBelow(kSamplingRows)));
    batch.label_offsets.push_back(static_cast<uint32_t>(batch.labels.size()));
    batch.label_targets.push_back(1.0f);
  }
  batch.fingerprints.resize(kSamplingBatch * head.index()->family().num_tables());
  head.index()->family().HashQueries(batch.hidden, kSamplingBatch, Parallelism{1},
                                     absl::MakeSpan(batch.fingerprints));
  return batch;
}

// The sums of all samples, without the shift by their largest logits.
std::vector<double> SumsOf(const HeadForwardOutput& output) {
  std::vector<double> sums;
  for (size_t s = 0; s < output.exp_sums.size(); ++s) {
    sums.push_back(output.exp_sums[s] * std::exp(static_cast<double>(output.max_logits[s])));
  }
  return sums;
}

TEST(HeadSamplingTest, DrawnCandidatesStandForThoseThatWereLeftOut) {
  const auto head = MakeSamplingHead(kPlaces, kDrawnPlaces, /*tail_rows=*/64);
  const auto whole = MakeSamplingHead(kSamplingRows, 0, 64);
  HeadContext context;
  HeadContext everything;
  HeadForwardOutput output;
  whole->Forward(MakeSamplingBatch(*whole), 5, Parallelism{1}, everything, output);
  std::vector<int64_t> ranked(kSamplingBatch, 0);
  for (const uint32_t sample : everything.samples) ++ranked[sample];
  EXPECT_THAT(everything.pair_weights, IsEmpty());

  head->Forward(MakeSamplingBatch(*head), 5, Parallelism{2}, context, output);
  std::vector<double> represented(kSamplingBatch, 0.0);
  std::vector<int64_t> drawn(kSamplingBatch, 0);
  std::vector<int64_t> shared_pairs(kSamplingBatch, 0);
  int64_t left_out = 0;
  for (size_t i = 0; i < context.rows.size(); ++i) {
    for (uint32_t k = context.pair_offsets[i]; k < context.pair_offsets[i + 1]; ++k) {
      const uint32_t sample = context.samples[k];
      const float weight = context.PairWeight(k);
      represented[sample] += weight;
      shared_pairs[sample] += context.is_shared[i];
      drawn[sample] += weight > 1.0f ? 1 : 0;
      left_out += weight == 0.0f ? 1 : 0;
      if (weight == 0.0f) {
        EXPECT_EQ(context.is_shared[i], 1) << "only the tail would count it";
      }
      if (context.is_label[k] != 0) {
        EXPECT_EQ(weight, 1.0f);
      }
    }
  }
  EXPECT_GT(left_out, 0) << "some of the tail were candidates";
  EXPECT_EQ(output.active_pairs, static_cast<int64_t>(context.samples.size()) - left_out);
  for (int64_t s = 0; s < kSamplingBatch; ++s) {
    ASSERT_GT(ranked[s], kPlaces) << "there is something to draw from";
    EXPECT_EQ(drawn[s], kDrawnPlaces);
    EXPECT_NEAR(represented[s], ranked[s], 1e-3);
    EXPECT_NEAR(context.tail_weights[s],
                (kSamplingRows - ranked[s]) / static_cast<double>(64 - shared_pairs[s]), 1e-4);
  }
}

// Each draw's sum is an estimate of that over all ranked candidates. Their mean over n draws lies
// within five of its standard errors, which the draws tell themselves.
TEST(HeadSamplingTest, SumsAreThoseOfAllCandidatesOnAverage) {
  for (const HeadLoss loss : {HeadLoss::kSoftmax, HeadLoss::kSigmoid}) {
    const auto head = MakeSamplingHead(kPlaces, kDrawnPlaces, /*tail_rows=*/0, loss);
    const auto whole = MakeSamplingHead(kSamplingRows, 0, /*tail_rows=*/0, loss);
    const auto cut = MakeSamplingHead(kPlaces, 0, /*tail_rows=*/0, loss);
    HeadContext context;
    HeadForwardOutput output;
    whole->Forward(MakeSamplingBatch(*whole), 1, Parallelism{1}, context, output);
    const std::vector<double> expected = SumsOf(output);
    cut->Forward(MakeSamplingBatch(*cut), 1, Parallelism{1}, context, output);
    const std::vector<double> of_the_best = SumsOf(output);
    constexpr int64_t kDraws = 400;
    std::vector<double> sums(kSamplingBatch, 0.0);
    std::vector<double> squares(kSamplingBatch, 0.0);
    for (uint64_t key = 0; key < kDraws; ++key) {
      head->Forward(MakeSamplingBatch(*head), key, Parallelism{1}, context, output);
      const std::vector<double> drawn = SumsOf(output);
      for (int64_t s = 0; s < kSamplingBatch; ++s) {
        sums[s] += drawn[s];
        squares[s] += drawn[s] * drawn[s];
      }
    }
    for (int64_t s = 0; s < kSamplingBatch; ++s) {
      const double mean = sums[s] / kDraws;
      const double error = std::sqrt((squares[s] / kDraws - mean * mean) / kDraws);
      EXPECT_NEAR(mean, expected[s], 5 * error + 1e-5 * expected[s]) << "sample " << s;
      EXPECT_LT(of_the_best[s], expected[s] - 10 * error) << "a cut alone is biased";
    }
  }
}

TEST(HeadSamplingTest, WithoutASettingNothingIsDrawnAndNothingIsKept) {
  const auto head = MakeSamplingHead(kPlaces, 0, 64);
  HeadContext context;
  HeadForwardOutput output;
  head->Forward(MakeSamplingBatch(*head), 5, Parallelism{1}, context, output);
  EXPECT_THAT(context.pair_weights, IsEmpty());
  EXPECT_EQ(output.active_pairs, static_cast<int64_t>(context.samples.size()));
}

TEST(HeadSamplingTest, EveryNumberOfThreadsGivesTheSameBits) {
  std::vector<uint64_t> digests;
  for (const int threads : {1, 2, 5}) {
    const auto head = MakeSamplingHead(kPlaces, kDrawnPlaces, 64);
    HeadContext context;
    HeadForwardOutput output;
    std::vector<float> gradient(kSamplingBatch * kSamplingDim);
    for (uint64_t step = 1; step < 6; ++step) {
      head->Forward(MakeSamplingBatch(*head), step, Parallelism{threads}, context, output);
      std::vector<float> log_partitions;
      for (int64_t s = 0; s < kSamplingBatch; ++s) {
        log_partitions.push_back(output.max_logits[s] + std::log(output.exp_sums[s]));
      }
      head->Backward(context, log_partitions, 0.1f, 1e4f, Parallelism{threads},
                     absl::MakeSpan(gradient));
    }
    digests.push_back(head->store().Digest(Parallelism{1}));
  }
  EXPECT_THAT(digests, Each(digests[0]));
}

}  // namespace
}  // namespace dslide
