#include "client/trainer/softmax_combine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/counter_rng.h"

namespace dslide {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// The parts of a softmax over `logits` of one sample, cut at `cut`; the label is row 0.
std::vector<HeadForwardOutput> Cut(const std::vector<float>& logits, size_t cut) {
  std::vector<HeadForwardOutput> parts(2);
  for (size_t s = 0; s < 2; ++s) {
    float highest = kNone;
    float sum = 0;
    const size_t first = s == 0 ? 0 : cut;
    const size_t last = s == 0 ? cut : logits.size();
    for (size_t i = first; i < last; ++i) highest = std::max(highest, logits[i]);
    for (size_t i = first; i < last; ++i) sum += std::exp(logits[i] - highest);
    parts[s].max_logits = {highest};
    parts[s].exp_sums = {sum};
  }
  parts[0].label_logits = {logits[0]};
  return parts;
}

std::vector<const HeadForwardOutput*> Views(const std::vector<HeadForwardOutput>& parts) {
  std::vector<const HeadForwardOutput*> views;
  for (const HeadForwardOutput& part : parts) views.push_back(&part);
  return views;
}

std::vector<RaggedSlice> OneLabelInFirst() {
  std::vector<RaggedSlice> labels(2);
  labels[0].offsets = {0, 1};
  labels[0].rows = {RowId(0)};
  labels[1].offsets = {0, 0};
  return labels;
}

TEST(CombineLossTest, DoesNotDependOnWhereTheRowsAreCut) {
  CounterRng rng(3);
  std::vector<float> logits;
  for (int i = 0; i < 40; ++i) logits.push_back(20 * rng.NextUniform() - 10);
  double direct = 0;
  for (const float logit : logits) direct += std::exp(double{logit});
  const double expected = std::log(direct) - double{logits[0]};
  for (const size_t cut : {size_t{1}, size_t{7}, size_t{39}}) {
    const auto parts = Cut(logits, cut);
    const auto combined =
        CombineLoss(HeadLoss::kSoftmax, Views(parts), OneLabelInFirst(), std::vector<float>{1.0f});
    ASSERT_TRUE(combined.ok()) << combined.status();
    EXPECT_NEAR(combined->loss_sum, expected, 1e-5);
    EXPECT_NEAR(combined->log_partitions[0], std::log(direct), 1e-5);
  }
}

// The gradient of a logit is then sum of targets * probability - target.
TEST(CombineLossTest, WeightsOfLabelsMakeTargetsOfAnySum) {
  const auto parts = Cut({1.0f, 2.0f, 0.5f}, 2);
  std::vector<RaggedSlice> labels = OneLabelInFirst();
  labels[0].values = {3.0f};
  const auto combined =
      CombineLoss(HeadLoss::kSoftmax, Views(parts), labels, std::vector<float>{0.5f});
  ASSERT_TRUE(combined.ok()) << combined.status();
  const double partition = std::log(std::exp(1.0) + std::exp(2.0) + std::exp(0.5));
  EXPECT_NEAR(combined->loss_sum, 1.5 * (partition - 1.0), 1e-6);
  EXPECT_NEAR(combined->log_partitions[0], partition - std::log(1.5), 1e-6);
}

TEST(CombineLossTest, AShardWithoutRowsAddsNothing) {
  auto parts = Cut({1.0f, 2.0f}, 2);
  EXPECT_EQ(parts[1].max_logits[0], kNone);
  const auto combined =
      CombineLoss(HeadLoss::kSoftmax, Views(parts), OneLabelInFirst(), std::vector<float>{1.0f});
  ASSERT_TRUE(combined.ok()) << combined.status();
  EXPECT_NEAR(combined->loss_sum, std::log(std::exp(1.0) + std::exp(2.0)) - 1.0, 1e-6);
}

TEST(CombineLossTest, SigmoidAddsSoftplusAndSubtractsTheLabels) {
  std::vector<HeadForwardOutput> parts(2);
  parts[0].max_logits = {0};
  parts[0].exp_sums = {1.5f};
  parts[0].label_logits = {0.75f};
  parts[1].max_logits = {0};
  parts[1].exp_sums = {2.0f};
  const auto combined =
      CombineLoss(HeadLoss::kSigmoid, Views(parts), OneLabelInFirst(), std::vector<float>{1.0f});
  ASSERT_TRUE(combined.ok());
  EXPECT_NEAR(combined->loss_sum, 2.75, 1e-6);
  EXPECT_TRUE(combined->log_partitions.empty());
}

TEST(CombineLossTest, RefusesDivergenceAndWrongSizes) {
  auto parts = Cut({1.0f, 2.0f}, 1);
  parts[0].label_logits = {std::numeric_limits<float>::quiet_NaN()};
  EXPECT_EQ(
      CombineLoss(HeadLoss::kSoftmax, Views(parts), OneLabelInFirst(), std::vector<float>{1.0f})
          .status()
          .code(),
      absl::StatusCode::kInvalidArgument);
  parts[0].label_logits = {};
  EXPECT_EQ(
      CombineLoss(HeadLoss::kSoftmax, Views(parts), OneLabelInFirst(), std::vector<float>{1.0f})
          .status()
          .code(),
      absl::StatusCode::kInternal);
}

TEST(CountRecallTest, MergesProbesIntoTheGlobalTopTen) {
  std::vector<HeadForwardOutput> parts(2);
  RecallTop a;
  a.sample = 4;
  RecallTop b = a;
  for (uint32_t i = 0; i < 10; ++i) {
    a.rows.push_back(RowId(2 * i));
    a.logits.push_back(20.0f - static_cast<float>(2 * i));  // 20, 18, ...
    a.found.push_back(i == 0 ? 0 : 1);
    b.rows.push_back(RowId(2 * i + 1));
    b.logits.push_back(19.0f - static_cast<float>(2 * i));  // 19, 17, ...
    b.found.push_back(1);
  }
  parts[0].recall = {a};
  parts[1].recall = {b};
  const RecallCount count = CountRecall(Views(parts));
  EXPECT_EQ(count.samples, 1);
  EXPECT_EQ(count.top_1_found, 0);  // row 0, of shard 0, was missed
  EXPECT_EQ(count.top_10, 10);
  EXPECT_EQ(count.top_10_found, 9);
}

TEST(CountRecallTest, NothingProbedIsNothing) {
  const std::vector<HeadForwardOutput> parts(3);
  EXPECT_EQ(CountRecall(Views(parts)).samples, 0);
}

}  // namespace
}  // namespace dslide
