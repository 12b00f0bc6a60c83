#include "bench/dense/dense_network.h"

#include <cmath>
#include <vector>

#include "bench/dense/blas.h"
#include "core/base/counter_rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/reference/dense_reference.h"

namespace dslide::bench {
namespace {

using testing::HasSubstr;

// More labels than two blocks hold, and a last block that is not full.
DenseOptions TinyOptions(int threads = 1) {
  DenseOptions options;
  options.features = 40;
  options.hidden = 12;
  options.labels = 2 * DenseHead::kBlockLabels + 77;
  options.max_batch = 16;
  options.adam.learning_rate = 0.01f;
  options.parallelism.threads = threads;
  return options;
}

// Labels follow from the features, so that there is something to learn. The third sample has none.
SparseBatch MakeBatch(const DenseOptions& options, int64_t samples, uint64_t key) {
  SparseBatch batch;
  CounterRng rng(key);
  for (int64_t s = 0; s < samples; ++s) {
    const auto first = static_cast<uint32_t>(rng.NextBelow(options.features - 2));
    for (uint32_t i = 0; i < 3; ++i) {
      batch.features.push_back(RowId(first + i));
      batch.values.push_back(0.5f + rng.NextUniform());
    }
    if (s != 2) {
      batch.labels.push_back(RowId(first));
      batch.labels.push_back(RowId(static_cast<uint32_t>(options.labels) - 1 - first));
    }
    batch.FinishSample();
  }
  return batch;
}

std::vector<double> Doubles(absl::Span<const float> values) {
  return {values.begin(), values.end()};
}

reference::DenseModel ReferenceOf(const DenseNetwork& network) {
  const DenseOptions& options = network.options();
  return {.features = options.features,
          .hidden = options.hidden,
          .labels = options.labels,
          .embedding = reference::DenseParameter(Doubles(network.embedding())),
          .hidden_bias = reference::DenseParameter(Doubles(network.hidden_bias())),
          .head = reference::DenseParameter(Doubles(network.head().weights())),
          .head_bias = reference::DenseParameter(Doubles(network.head().bias())),
          .learning_rate = options.adam.learning_rate};
}

void ExpectNear(absl::Span<const float> actual, const std::vector<double>& expected,
                double tolerance, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance) << what << " " << i;
  }
}

class DenseNetworkTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!BlasAvailable()) GTEST_SKIP() << "skipped: this build has no BLAS library";
  }
};

TEST_F(DenseNetworkTest, GradientsEqualTheReference) {
  const DenseOptions options = TinyOptions();
  const auto network = DenseNetwork::Create(options).value();
  reference::DenseModel model = ReferenceOf(*network);
  const SparseBatch batch = MakeBatch(options, 16, 1);
  const auto step = network->Train(batch);
  ASSERT_TRUE(step.ok()) << step.status();
  const double loss = reference::TrainDense(model, batch);
  // The loss is a mean of terms of about 8 whose exponentials have a relative error of 2^-20.
  EXPECT_NEAR(step->loss, loss, 1e-5);
  // A gradient is a sum of 16 terms of at most 1/16 * |h|, |h| < 8, each with a relative error of
  // 2^-20 from the exponential and (16 + 1024) u from the sums: below 1e-4 * 8. What is compared is
  // 1 - beta1 of it, and the largest entries are a thousand times the tolerance.
  const double tolerance = 1e-5;
  const auto moment = [&](const reference::DenseParameter& parameter) {
    std::vector<double> expected = parameter.gradient;
    for (double& x : expected) x *= 1 - model.beta1;
    return expected;
  };
  ExpectNear(network->head().moment(), moment(model.head), tolerance, "head");
  ExpectNear(network->head().bias_moment(), moment(model.head_bias), tolerance, "head bias");
  ExpectNear(network->embedding_moment(), moment(model.embedding), tolerance, "embedding");
  double largest = 0;
  for (const float m : network->head().moment()) largest = std::max(largest, std::abs(double{m}));
  EXPECT_GT(largest, 100 * tolerance);
}

TEST_F(DenseNetworkTest, StepsEqualTheReference) {
  const DenseOptions options = TinyOptions();
  const auto network = DenseNetwork::Create(options).value();
  reference::DenseModel model = ReferenceOf(*network);
  for (uint64_t step = 0; step < 4; ++step) {
    // The last batch is smaller than the largest.
    const SparseBatch batch = MakeBatch(options, step == 3 ? 5 : 16, step);
    const auto result = network->Train(batch);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_NEAR(result->loss, reference::TrainDense(model, batch), 1e-3);
  }
  // Adam divides by the gradient's own size, so that a tiny gradient's relative error is the
  // step's: a hundredth of the four steps of 0.01 each.
  ExpectNear(network->head().bias(), model.head_bias.value, 4e-4, "head bias");
  ExpectNear(network->embedding(), model.embedding.value, 4e-4, "embedding");
  ExpectNear(network->hidden_bias(), model.hidden_bias.value, 4e-4, "hidden bias");
}

TEST_F(DenseNetworkTest, LossFalls) {
  const DenseOptions options = TinyOptions(2);
  const auto network = DenseNetwork::Create(options).value();
  double first = 0.0;
  double last = 0.0;
  for (uint64_t step = 0; step < 150; ++step) {
    const auto result = network->Train(MakeBatch(options, 16, step));
    ASSERT_TRUE(result.ok()) << result.status();
    if (step == 0) first = result->loss;
    last = result->loss;
  }
  // ln(labels) at first; two equally right labels cannot go below ln 2, a sixteenth has none.
  EXPECT_GT(first, 6.0);
  EXPECT_LT(last, 0.5 * first);
}

TEST_F(DenseNetworkTest, BitsDoNotDependOnTheThreads) {
  const auto one = DenseNetwork::Create(TinyOptions(1)).value();
  const auto three = DenseNetwork::Create(TinyOptions(3)).value();
  for (uint64_t step = 0; step < 3; ++step) {
    const SparseBatch batch = MakeBatch(TinyOptions(), 16, step);
    EXPECT_EQ(one->Train(batch)->loss, three->Train(batch)->loss);
  }
  EXPECT_EQ(one->embedding(), three->embedding());
  EXPECT_EQ(one->head().weights(), three->head().weights());
}

TEST_F(DenseNetworkTest, RefusesWhatDoesNotFit) {
  DenseOptions options = TinyOptions();
  const auto network = DenseNetwork::Create(options).value();
  SparseBatch batch = MakeBatch(options, 3, 1);
  batch.labels.back() = RowId(static_cast<uint32_t>(options.labels));
  EXPECT_THAT(std::string(network->Train(batch).status().message()),
              HasSubstr("sample 1 has label 2125 of [0, 2125)"));
  EXPECT_THAT(std::string(network->Train(MakeBatch(options, 17, 1)).status().message()),
              HasSubstr("17, must be in [1, 16]"));
  options.hidden = 0;
  EXPECT_THAT(std::string(DenseNetwork::Create(options).status().message()),
              HasSubstr("hidden is 0"));
}

}  // namespace
}  // namespace dslide::bench
