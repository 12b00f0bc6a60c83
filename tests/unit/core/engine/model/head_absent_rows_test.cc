// Rows of a head that are not there, and the softmax of those that are.

#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/counter_rng.h"
#include "core/engine/model/head_table.h"
#include "gtest/gtest.h"

namespace dslide {
namespace {

constexpr int64_t kAllRows = 300;
constexpr int64_t kColumns = 16;
constexpr int64_t kSamples = 4;

class HeadAbsentRowsTest : public ::testing::TestWithParam<int64_t> {
 protected:
  HeadAbsentRowsTest() {
    TableSpec spec;
    spec.name = "out";
    spec.role = TableRole::kHead;
    spec.rows = kAllRows;
    spec.dim = kColumns;
    spec.num_slots = 8;
    spec.head.max_active = GetParam();
    // All that are not active, so that the sum is no estimate.
    spec.head.tail_rows = kAllRows;
    spec.head.hash.codes_per_table = 3;
    spec.head.hash.num_tables = 4;
    const auto map = SlotMap::Deal(spec.num_slots, {1.0});
    head_ = *HeadTable::Create(spec, 1, ShardRows(*map, ShardId(0), spec.rows), Parallelism{1});
    CounterRng rng(7);
    for (int64_t i = 0; i < kSamples * kColumns; ++i) {
      hidden_.push_back(std::abs(rng.NextGaussian()));
    }
    std::vector<uint8_t> marks(kAllRows, 0);
    for (int64_t i = 0; i < kAllRows; i += 3) marks[i] = 1;
    head_->LeaveOut(marks, Parallelism{1});
  }

  // The log of each sample's softmax sum; all samples have one label.
  std::vector<double> LogPartitions(LocalRow label) {
    HeadBatch batch;
    batch.hidden = hidden_;
    batch.label_offsets = {0};
    for (int64_t s = 0; s < kSamples; ++s) {
      batch.labels.push_back(label);
      batch.label_offsets.push_back(static_cast<uint32_t>(batch.labels.size()));
      batch.label_targets.push_back(1.0f);
    }
    if (head_->index() != nullptr) {
      batch.fingerprints.resize(kSamples * head_->index()->family().num_tables());
      head_->index()->family().HashQueries(batch.hidden, kSamples, Parallelism{1},
                                           absl::MakeSpan(batch.fingerprints));
    }
    HeadContext context;
    HeadForwardOutput output;
    head_->Forward(std::move(batch), /*tail_key=*/5, Parallelism{1}, context, output);
    std::vector<double> logs;
    for (int64_t s = 0; s < kSamples; ++s) {
      logs.push_back(output.max_logits[s] + std::log(output.exp_sums[s]));
    }
    return logs;
  }

  // Of the rows that are there, and `others` beside them with a logit of 0.
  double Expected(int64_t sample, int64_t others) const {
    const RowReader reader(head_->store());
    std::vector<float> scratch(static_cast<size_t>(head_->store().stride()));
    double sum = static_cast<double>(others);
    for (int64_t i = 0; i < kAllRows; ++i) {
      if (i % 3 == 0) continue;
      const LocalRow row(static_cast<uint32_t>(i));
      const float* const weights = reader.Weights(row, scratch.data());
      double logit = reader.Bias(row);
      for (int64_t j = 0; j < kColumns; ++j) logit += weights[j] * hidden_[sample * kColumns + j];
      sum += std::exp(logit);
    }
    return std::log(sum);
  }

  std::unique_ptr<HeadTable> head_;
  std::vector<float> hidden_;
};

TEST_P(HeadAbsentRowsTest, AddNothingToTheSoftmax) {
  const std::vector<double> logs = LogPartitions(LocalRow(4));
  for (int64_t s = 0; s < kSamples; ++s) EXPECT_NEAR(logs[s], Expected(s, 0), 1e-5);
}

// Of data that somebody read before it was retired.
TEST_P(HeadAbsentRowsTest, HaveALogitOfZeroAsLabels) {
  const std::vector<double> logs = LogPartitions(LocalRow(6));
  for (int64_t s = 0; s < kSamples; ++s) EXPECT_NEAR(logs[s], Expected(s, 1), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Active, HeadAbsentRowsTest, ::testing::Values(0, 20));

}  // namespace
}  // namespace dslide
