#include "core/engine/trees/tree_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/base/counter_rng.h"
#include "core/engine/trees/label_centroid.h"
#include "core/engine/trees/label_tree.h"

namespace dslide {
namespace {

constexpr int64_t kLabels = 60;
constexpr int64_t kTopics = 12;

// Labels come in topics of five; a point has two labels of its topic, and features of both.
class TreeRowsTest : public ::testing::Test {
 protected:
  TreeRowsTest() {
    CounterRng rng(3);
    for (int i = 0; i < 400; ++i) {
      const auto topic = static_cast<uint32_t>(rng.NextBelow(kTopics));
      std::set<uint32_t> labels = {topic * 5 + static_cast<uint32_t>(rng.NextBelow(5)),
                                   topic * 5 + static_cast<uint32_t>(rng.NextBelow(5))};
      std::map<uint32_t, float> features = {{topic, 0.5f}};
      for (const uint32_t label : labels) {
        features[kTopics + 2 * label + static_cast<uint32_t>(rng.NextBelow(2))] = 0.5f;
      }
      features[200 + static_cast<uint32_t>(rng.NextBelow(20))] = 0.25f;
      std::vector<RowId> ids;
      std::vector<float> values;
      for (const auto& [feature, value] : features) {
        ids.push_back(RowId(feature));
        values.push_back(value);
      }
      records_.push_back(
          EncodePoint(ids, values, std::vector<RowId>(labels.begin(), labels.end())));
    }
    std::vector<PointView> views;
    for (const std::string& record : records_) views.emplace_back(record.data());
    views[7] = PointView();  // a point that is not there
    points_ = std::make_unique<TrainingPoints>(std::move(views), kLabels);
    for (const MadeRow& row : MakeCentroids(*points_, shape_, 0, kLabels, All, {2})) {
      centroids_[row.row.value()] = row.record;
    }
    leaves_ = BuildLabelTree(centroids_, points_->features(), shape_.depth(), 11, {2});
  }

  static bool All(RowId) { return true; }

  std::vector<std::string> records_;
  const TreeShape shape_{kLabels, 1, 3, 2};
  std::unique_ptr<TrainingPoints> points_;
  std::vector<std::string> centroids_ = std::vector<std::string>(kLabels);
  std::vector<uint32_t> leaves_;
};

TEST_F(TreeRowsTest, CentroidsAreUnitSumsOfTheirPoints) {
  for (int64_t label = 0; label < kLabels; ++label) {
    std::map<uint32_t, double> sum;
    for (const uint32_t id : points_->by_label().Of(label)) {
      const PointView point(records_[id].data());
      for (int64_t i = 0; i < point.num_features(); ++i) {
        sum[point.features()[i].value()] += ToFloat(point.values()[i]);
      }
    }
    double squares = 0;
    for (const auto& [column, value] : sum) squares += value * value;
    const SparseRowView row(centroids_[label].data());
    for (uint32_t i = 0; i < row.entries(); ++i) {
      EXPECT_NEAR(ToFloat(row.weights()[i]), sum[row.columns()[i]] / std::sqrt(squares), 0.004);
    }
    for (const auto& [column, value] : sum) {
      if (value / std::sqrt(squares) < kCentroidDropBelow * 1.01) continue;
      EXPECT_TRUE(std::binary_search(row.columns().begin(), row.columns().end(), column));
    }
  }
}

TEST_F(TreeRowsTest, TreesAreBalancedAndKeepTopicsTogether) {
  std::map<uint32_t, int> sizes;
  for (const uint32_t leaf : leaves_) ++sizes[leaf];
  ASSERT_EQ(sizes.size(), 8u);
  for (const auto& [leaf, size] : sizes) EXPECT_NEAR(size, 7.5, 1);
  int together = 0;
  for (int64_t topic = 0; topic < kTopics; ++topic) {
    std::map<uint32_t, int> mine;
    for (int64_t i = 0; i < 5; ++i) ++mine[leaves_[topic * 5 + i]];
    int most = 0;
    for (const auto& [leaf, count] : mine) most = std::max(most, count);
    together += most;
  }
  // Chance would leave about two of five together.
  EXPECT_GT(together, 45);
  EXPECT_EQ(leaves_, BuildLabelTree(centroids_, points_->features(), 3, 11, {1}));
  EXPECT_NE(leaves_, BuildLabelTree(centroids_, points_->features(), 3, 12, {1}));
}

TEST_F(TreeRowsTest, LabelsWithoutPointsHaveNoLeafAndNoRow) {
  std::vector<std::string> some = centroids_;
  some[17].clear();
  std::vector<uint32_t> leaves = BuildLabelTree(some, points_->features(), 3, 11, {1});
  EXPECT_EQ(leaves[17], kNoLeaf);
  const TreePoints tree(*points_, shape_, leaves);
  for (const MadeRow& row : tree.Solve(0, shape_.label_level(), 0, 8, All, {}, 1, {1})) {
    EXPECT_NE(row.row, shape_.LabelRow(0, RowId(17)));
  }
}

TEST_F(TreeRowsTest, RowsTellTheirPointsFromThoseOfTheirParent) {
  const TreePoints tree(*points_, shape_, leaves_);
  int64_t right = 0;
  int64_t all = 0;
  for (const MadeRow& made : tree.Solve(0, shape_.label_level(), 0, 8, All, {}, 1, {2})) {
    const auto label = static_cast<int64_t>(made.row.value()) - kLabels;
    const SparseRowView row(made.record.data());
    std::vector<float> input(static_cast<size_t>(points_->features()));
    for (size_t id = 0; id < points_->points().size(); ++id) {
      const PointView point = points_->points()[id];
      if (!point.present()) continue;
      bool in_leaf = false;
      bool positive = false;
      for (const RowId other : point.labels()) {
        in_leaf |= leaves_[other.value()] == leaves_[label];
        positive |= other.value() == label;
      }
      if (!in_leaf) continue;
      for (int64_t i = 0; i < point.num_features(); ++i) {
        input[point.features()[i].value()] = ToFloat(point.values()[i]);
      }
      ++all;
      right += (row.Score(input.data()) > 0) == positive ? 1 : 0;
      for (const RowId feature : point.features()) input[feature.value()] = 0;
    }
  }
  EXPECT_GT(all, 1000);
  EXPECT_GT(static_cast<double>(right) / static_cast<double>(all), 0.97);
}

TEST_F(TreeRowsTest, RowsDependOnNothingButTheirOwnPoints) {
  const TreePoints tree(*points_, shape_, leaves_);
  for (int64_t level = 0; level <= shape_.label_level(); ++level) {
    const int64_t parents = shape_.ParentsAt(level);
    std::map<uint32_t, std::string> whole;
    for (const MadeRow& row : tree.Solve(0, level, 0, parents, All, {}, 1, {1})) {
      whole[row.row.value()] = row.record;
    }
    std::map<uint32_t, std::string> in_parts;
    for (int64_t parent = 0; parent < parents; ++parent) {
      for (const uint32_t shard : {0u, 1u, 2u}) {
        const auto mine = [&](RowId row) { return row.value() % 3 == shard; };
        for (const MadeRow& row : tree.Solve(0, level, parent, parent + 1, mine, {}, 1, {3})) {
          EXPECT_TRUE(in_parts.emplace(row.row.value(), row.record).second);
        }
      }
    }
    EXPECT_EQ(whole, in_parts);
    EXPECT_FALSE(whole.empty());
  }
}

// A row in doubles: min |w|^2 / 2 + sum max(0, 1 - y (w.x + b))^2, the bias a weight as well.
class PlainRow {
 public:
  PlainRow(const TrainingPoints& points, const std::vector<uint32_t>& all,
           absl::Span<const uint32_t> positive)
      : points_(points),
        all_(all),
        positive_(positive),
        weights_(static_cast<size_t>(points.features())) {}

  void Read(const std::string& record) {
    const SparseRowView row(record.data());
    bias_ = row.bias();
    std::fill(weights_.begin(), weights_.end(), 0.0);
    for (uint32_t i = 0; i < row.entries(); ++i) {
      weights_[row.columns()[i]] = ToFloat(row.weights()[i]);
    }
  }

  void Solve() {
    std::fill(weights_.begin(), weights_.end(), 0.0);
    bias_ = 0;
    std::vector<double> alphas(all_.size());
    for (int pass = 0; pass < 2000; ++pass) {
      for (size_t i = 0; i < all_.size(); ++i) {
        const double gradient = Margin(all_[i]) - 1 + 0.5 * alphas[i];
        const double curvature = SquaredLength(points_.points()[all_[i]]) + 1 + 0.5;
        const double alpha = std::max(0.0, alphas[i] - gradient / curvature);
        Add(all_[i], (alpha - alphas[i]) * Sign(all_[i]));
        alphas[i] = alpha;
      }
    }
  }

  double Objective() const {
    double value = bias_ * bias_ / 2;
    for (const double weight : weights_) value += weight * weight / 2;
    for (const uint32_t id : all_) {
      const double missing = std::max(0.0, 1 - Margin(id));
      value += missing * missing;
    }
    return value;
  }

 private:
  double Sign(uint32_t id) const {
    return std::binary_search(positive_.begin(), positive_.end(), id) ? 1 : -1;
  }
  double Margin(uint32_t id) const {
    const PointView point = points_.points()[id];
    double score = bias_;
    for (size_t i = 0; i < point.num_features(); ++i) {
      score += weights_[point.features()[i].value()] * ToFloat(point.values()[i]);
    }
    return Sign(id) * score;
  }
  void Add(uint32_t id, double amount) {
    const PointView point = points_.points()[id];
    for (size_t i = 0; i < point.num_features(); ++i) {
      weights_[point.features()[i].value()] += amount * ToFloat(point.values()[i]);
    }
    bias_ += amount;
  }

  const TrainingPoints& points_;
  const std::vector<uint32_t>& all_;
  const absl::Span<const uint32_t> positive_;
  std::vector<double> weights_;
  double bias_ = 0;
};

// Five passes, which stop at a wide tolerance, against the optimum; rows beside others, whose
// positive points are listed in any order and often, against rows alone.
TEST_F(TreeRowsTest, TheSolverComesNearTheOptimum) {
  std::vector<uint32_t> all;
  for (uint32_t id = 0; id < points_->points().size(); ++id) {
    if (points_->points()[id].present()) all.push_back(id);
  }
  RowSolver solver(points_->points(), points_->squared_lengths(), points_->features(),
                   {.passes = 5, .drop_below = 0});
  solver.SetPoints(all, 1);
  std::vector<absl::Span<const uint32_t>> positives;
  std::vector<std::string> alone;
  for (int64_t label = 12; label < 12 + kDualRows; ++label) {
    const absl::Span<const uint32_t> positive = points_->by_label().Of(label);
    positives.push_back(positive);
    alone.push_back(solver.Solve({positive})[0]);
    PlainRow row(*points_, all, positive);
    row.Read(alone.back());
    const double near = row.Objective();
    row.Solve();
    // The row is rounded to bf16, and the optimum is the least.
    EXPECT_LT(near, 1.35 * row.Objective()) << "label " << label;
    EXPECT_GT(near, (1 - 1e-6) * row.Objective()) << "label " << label;
  }
  EXPECT_EQ(solver.Solve(positives), alone);
  std::vector<uint32_t> repeated(positives[3].rbegin(), positives[3].rend());
  repeated.insert(repeated.end(), positives[3].begin(), positives[3].end());
  EXPECT_EQ(solver.Solve({repeated})[0], alone[3]);
}

}  // namespace
}  // namespace dslide
