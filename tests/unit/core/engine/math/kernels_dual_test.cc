#include "core/engine/math/kernels_dual.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/counter_rng.h"
#include "gtest/gtest.h"
#include "tests/unit/core/engine/math/kernel_test.h"

namespace dslide {
namespace {

class DualKernelTest : public KernelTest {};
DSLIDE_INSTANTIATE_KERNEL_TEST(DualKernelTest);

constexpr uint32_t kColumns = 40;
constexpr DualSettings kSettings = {.diagonal = 0.5f, .shrink_above = 0.6f};

// Samples of 0 to 9 features, and which of the rows each belongs to.
struct Problem {
  explicit Problem(uint64_t seed) {
    CounterRng rng(seed);
    for (int i = 0; i < 60; ++i) {
      std::vector<uint32_t>& mine = columns.emplace_back();
      std::vector<BFloat16>& weights = values.emplace_back();
      float squares = 0;
      for (uint32_t column = 0; column < kColumns; ++column) {
        if (rng.NextUniform() > 0.12f || mine.size() == 9) continue;
        mine.push_back(column);
        weights.push_back(ToBFloat16(4 * rng.NextUniform() - 1.5f));
        squares += ToFloat(weights.back()) * ToFloat(weights.back());
      }
      curvatures.push_back(squares + 1 + kSettings.diagonal);
      // The last row has no sample, the first one all.
      positive.push_back(static_cast<DualRowSet>((rng.NextBelow(1u << 15)) | 1u));
    }
    order.resize(columns.size());
    std::iota(order.begin(), order.end(), 0u);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.NextBelow(i)]);
  }

  std::vector<DualSample> samples() const {
    std::vector<DualSample> all;
    for (size_t i = 0; i < columns.size(); ++i) {
      all.push_back({.columns = columns[i].data(),
                     .values = values[i].data(),
                     .size = static_cast<uint32_t>(columns[i].size()),
                     .curvature = curvatures[i]});
    }
    return all;
  }

  std::vector<std::vector<uint32_t>> columns;
  std::vector<std::vector<BFloat16>> values;
  std::vector<float> curvatures;
  std::vector<DualRowSet> positive;
  std::vector<uint32_t> order;
};

// One row by plain loops.
struct ReferenceRow {
  std::vector<float> weights = std::vector<float>(kColumns);
  float bias = 0;
  std::vector<float> alphas;
  std::vector<bool> active;
  float largest = 0;

  explicit ReferenceRow(const Problem& problem)
      : alphas(problem.columns.size()), active(problem.columns.size(), true) {}

  void Pass(const Problem& problem, int row) {
    largest = 0;
    for (const uint32_t at : problem.order) {
      if (!active[at]) continue;
      const std::vector<uint32_t>& columns = problem.columns[at];
      float sums[2] = {};
      for (size_t i = 0; i < columns.size(); ++i) {
        sums[i % 2] += ToFloat(problem.values[at][i]) * weights[columns[i]];
      }
      const float sign = (problem.positive[at] >> row & 1) != 0 ? 1.0f : -1.0f;
      const float margin = sign * (bias + (sums[0] + sums[1]));
      const float gradient = margin - 1 + kSettings.diagonal * alphas[at];
      if (alphas[at] == 0 && gradient > kSettings.shrink_above) active[at] = false;
      const float alpha = std::max(alphas[at] - gradient / problem.curvatures[at], 0.0f);
      const float step = alpha - alphas[at];
      largest = std::max(largest, std::abs(step) * problem.curvatures[at]);
      alphas[at] = alpha;
      for (size_t i = 0; i < columns.size(); ++i) {
        weights[columns[i]] += sign * step * ToFloat(problem.values[at][i]);
      }
      bias += sign * step;
    }
  }
};

TEST_P(DualKernelTest, EachRowIsSolvedAsIfAlone) {
  const Problem problem(5);
  const std::vector<DualSample> samples = problem.samples();
  const auto count = static_cast<int64_t>(samples.size());
  std::vector<DualLine> weights(kColumns);
  DualLine bias;
  std::vector<DualLine> alphas(samples.size());
  std::vector<DualRowSet> active(samples.size(), 0xffff);
  const DualRows rows = {weights.data(), &bias, alphas.data(), problem.positive.data(),
                         active.data()};
  std::vector<ReferenceRow> expected(kDualRows, ReferenceRow(problem));
  // The fourth row rests after the first pass.
  constexpr int kResting = 3;
  DualRowSet live = 0xffff;
  size_t shrunk = 0;
  for (int pass = 0; pass < 4; ++pass) {
    DualLine largest;
    DualPass(samples.data(), problem.order.data(), count, live, kSettings, rows, &largest);
    for (int row = 0; row < kDualRows; ++row) {
      if (pass == 0 || row != kResting)
        expected[row].Pass(problem, row);
      else
        expected[row].largest = 0;
      EXPECT_EQ(largest.of[row], expected[row].largest) << "pass " << pass << " row " << row;
      EXPECT_EQ(bias.of[row], expected[row].bias) << "pass " << pass << " row " << row;
      for (uint32_t c = 0; c < kColumns; ++c) {
        ASSERT_EQ(weights[c].of[row], expected[row].weights[c])
            << "pass " << pass << " row " << row;
      }
      for (size_t i = 0; i < samples.size(); ++i) {
        ASSERT_EQ(alphas[i].of[row], expected[row].alphas[i]);
        ASSERT_EQ((active[i] >> row & 1) != 0, expected[row].active[i]);
        shrunk += expected[row].active[i] ? 0 : 1;
      }
    }
    live = 0xffff & ~(1u << kResting);
  }
  EXPECT_GT(shrunk, 100u);
}

TEST_P(DualKernelTest, KeepsWhatIsLargeEnoughAndNotZero) {
  std::vector<DualLine> weights(3);
  weights[0].of[0] = 0.25f;
  weights[0].of[15] = -0.25f;
  weights[1].of[7] = 0.2f;
  weights[2].of[3] = -0x1p-30f;
  std::vector<DualRowSet> kept(3);
  DualKept(weights.data(), 3, 0.25f, kept.data());
  EXPECT_EQ(kept, (std::vector<DualRowSet>{0x8001, 0, 0}));
  DualKept(weights.data(), 3, 0, kept.data());
  EXPECT_EQ(kept, (std::vector<DualRowSet>{0x8001, 0x80, 8}));
}

}  // namespace
}  // namespace dslide
