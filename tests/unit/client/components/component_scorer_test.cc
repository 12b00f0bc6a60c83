// What is asked for a prediction, in two rounds, and how the answers are put together.

#include "client/components/component_scorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "absl/time/clock.h"
#include "core/base/counter_rng.h"
#include "tests/unit/patience.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kScoredLabels = 90;
constexpr uint32_t kLabelsOfPoint = 6;

float RowScore(RowId row) { return static_cast<float>(row.value() % 17) / 8 - 1; }

// Finds the same neighbours for every sample; what a row scores depends on the row alone.
class ScoringShard final : public StepChannel {
 public:
  ScoringShard(int number, std::vector<std::string>& log) : number_(number), log_(log) {}

  std::shared_ptr<PendingStep> Send(int64_t, int64_t, StepOp op) override {
    auto pending = std::make_shared<PendingStep>(absl::Now() + kPatience,
                                                 absl::DeadlineExceededError("too late"));
    if (const auto* const find = std::get_if<FindNeighboursOp>(&op)) {
      log_.push_back("neighbours");
      pending->Complete(ReplyBody(Neighbours(find->inputs.batch())), Outcome::kApplied);
    } else {
      log_.push_back("rows");
      asked.push_back(std::get<ScoreRowsOp>(std::move(op)));
      ScoreRowsReply reply;
      for (const RowId row : asked.back().rows) reply.scores.push_back(RowScore(row));
      pending->Complete(ReplyBody(std::move(reply)), Outcome::kApplied);
    }
    return pending;
  }

  FindNeighboursReply Neighbours(int64_t batch) const {
    FindNeighboursReply reply;
    reply.label_offsets = {0};
    for (int64_t sample = 0; sample < batch; ++sample) {
      reply.counts.push_back(4);
      for (uint32_t i = 0; i < 4; ++i) {
        reply.points.emplace_back(2 * i + static_cast<uint32_t>(number_));
        // The second shard has every other one.
        reply.similarities.push_back(0.9f - 0.2f * static_cast<float>(i) -
                                     0.1f * static_cast<float>(number_));
        const uint32_t first = (i * 25 + static_cast<uint32_t>(number_ + sample) * 3) % 80;
        for (uint32_t label = first; label < first + kLabelsOfPoint; ++label) {
          reply.labels.emplace_back(label);
        }
        reply.label_offsets.push_back(static_cast<uint32_t>(reply.labels.size()));
      }
    }
    return reply;
  }

  std::vector<ScoreRowsOp> asked;

 private:
  const int number_;
  std::vector<std::string>& log_;
};

class ComponentScorerTest : public ::testing::Test {
 protected:
  static ModelSpec Spec() {
    ModelSpec spec;
    spec.name = "m";
    spec.tables.resize(3);
    spec.tables[0].role = TableRole::kMemory;
    spec.tables[0].memory.labels = kScoredLabels;
    spec.tables[0].memory.base_labels = 80;  // it has grown by the others
    spec.tables[0].memory.neighbours = 5;
    spec.tables[0].memory.candidates = 20;
    spec.tables[1].role = TableRole::kLabelTrees;
    spec.tables[1].trees = {.trees = 2, .level_step = 2, .depth = 5};
    spec.tables[2].role = TableRole::kLinear;
    return spec;
  }
  static SparseInputs Samples(uint32_t count) {
    SparseInputs inputs;
    inputs.offsets = {0};
    for (uint32_t i = 0; i < count; ++i) {
      inputs.features.emplace_back(i);
      inputs.values.push_back(1);
      inputs.offsets.push_back(i + 1);
    }
    return inputs;
  }

  void SetUp() override {
    CounterRng rng(3);
    leaves_.resize(2);
    for (std::vector<uint32_t>& tree : leaves_) {
      for (int64_t label = 0; label < kScoredLabels; ++label) {
        // Every ninth label is in no tree.
        tree.push_back(label % 9 == 0 ? kNoLeaf : static_cast<uint32_t>(rng.NextBelow(32)));
      }
    }
    scorer_.SetTrees(leaves_, std::vector<uint32_t>(kScoredLabels, 3));
  }

  // The rows that the labels need, each once.
  std::vector<RowId> RowsOf(const std::vector<RowId>& labels) const {
    const TreeShape& shape = *tables_.shape;
    std::set<RowId> rows;
    for (const RowId label : labels) {
      rows.insert(shape.CentroidRow(label));
      for (int64_t tree = 0; tree < shape.trees(); ++tree) {
        rows.insert(shape.LabelRow(tree, label));
        const uint32_t leaf = leaves_[static_cast<size_t>(tree)][label.value()];
        for (int64_t level = 0; leaf != kNoLeaf && level < shape.label_level(); ++level) {
          rows.insert(shape.ClusterRow(tree, level, shape.ClusterOf(level, leaf)));
        }
      }
    }
    return {rows.begin(), rows.end()};
  }

  const ModelSpec spec_ = Spec();
  const ComponentTables tables_{spec_};
  std::vector<std::string> log_;
  ScoringShard first_{0, log_};
  ScoringShard second_{1, log_};
  const SlotMap slots_ = *SlotMap::Deal(4, std::vector<double>{1.0, 1.0});
  int64_t next_step_ = 1;
  ComponentShards shards_{tables_, {&first_, &second_}, slots_, &slots_, &next_step_};
  std::vector<std::vector<uint32_t>> leaves_;
  ComponentScorer scorer_{tables_, shards_, [this](const SparseInputs&) -> CandidateLogits {
                            log_.push_back("hidden");
                            return [this](const ExplicitRows<RowId>& candidates) {
                              log_.push_back("logits");
                              std::vector<float> logits;
                              for (const RowId row : candidates.rows) {
                                logits.push_back(static_cast<float>(row.value()));
                              }
                              return logits;
                            };
                          }};
};

TEST_F(ComponentScorerTest, AsksForRowsLast) {
  ASSERT_TRUE(scorer_.Score(Samples(1)).ok());
  // The search for neighbours goes on beside the network's first layer.
  EXPECT_THAT(log_, ElementsAre("hidden", "neighbours", "neighbours", "logits", "rows", "rows"));
}

TEST_F(ComponentScorerTest, AsksForRowsOfPreselectedCandidates) {
  const auto all = scorer_.Score(Samples(1));
  ASSERT_TRUE(all.ok()) << all.status();
  std::vector<RowId> labels = (*all)[0].labels;
  std::sort(labels.rbegin(), labels.rend());
  FusionWeights fusion = {.points = 5, .weights = std::vector<float>(kFusionInputs)};
  fusion.weights[static_cast<size_t>(FusionInput::kCentroid)] = 1;
  // Large logits, which are those of large labels.
  fusion.preselection = {.candidates = 4, .weights = std::vector<float>(kFusionInputs)};
  fusion.preselection.weights[static_cast<size_t>(FusionInput::kNetwork)] = 1;
  scorer_.SetFusion(fusion);
  for (const auto& [k, kept] : {std::pair<int64_t, size_t>{2, 4}, {10, 4}, {11, 5}, {20, 8}}) {
    first_.asked.clear();
    second_.asked.clear();
    const auto ranked = scorer_.Rank(Samples(1), k);
    ASSERT_TRUE(ranked.ok()) << ranked.status();
    std::vector<RowId> asked;
    for (const ScoringShard* const shard : {&first_, &second_}) {
      for (const ScoreRowsOp& op : shard->asked) {
        asked.insert(asked.end(), op.rows.begin(), op.rows.end());
      }
    }
    std::sort(asked.begin(), asked.end());
    const std::vector<RowId> best(labels.begin(),
                                  labels.begin() + static_cast<std::ptrdiff_t>(kept));
    EXPECT_EQ(asked, RowsOf(best)) << k;
    EXPECT_EQ((*ranked)[0].scored_rows, static_cast<int64_t>(kept)) << k;
    EXPECT_THAT((*ranked)[0].labels, SizeIs(std::min(static_cast<size_t>(k), kept))) << k;
    EXPECT_TRUE(std::is_sorted((*ranked)[0].logits.rbegin(), (*ranked)[0].logits.rend())) << k;
  }
}

TEST_F(ComponentScorerTest, AsksEachRowOnceOfItsOwner) {
  const auto all = scorer_.Score(Samples(3));
  ASSERT_TRUE(all.ok()) << all.status();
  for (size_t sample = 0; sample < 3; ++sample) {
    std::vector<RowId> asked;
    for (const ScoringShard* const shard : {&first_, &second_}) {
      ASSERT_THAT(shard->asked, SizeIs(1));
      const ScoreRowsOp& op = shard->asked[0];
      ASSERT_THAT(op.row_offsets, SizeIs(4));
      const auto begin = op.rows.begin() + op.row_offsets[sample];
      const auto end = op.rows.begin() + op.row_offsets[sample + 1];
      EXPECT_EQ(std::adjacent_find(begin, end, std::greater_equal<>()), end);
      for (auto row = begin; row != end; ++row) {
        EXPECT_EQ(slots_.OwnerOf(*row).value(), shard == &second_ ? 1 : 0);
        asked.push_back(*row);
      }
    }
    std::sort(asked.begin(), asked.end());
    EXPECT_EQ(asked, RowsOf((*all)[sample].labels)) << sample;
  }
}

TEST_F(ComponentScorerTest, PutsTheAnswersTogether) {
  const auto all = scorer_.Score(Samples(2));
  ASSERT_TRUE(all.ok()) << all.status();
  const TreeShape& shape = *tables_.shape;
  for (const ComponentScores& mine : *all) {
    ASSERT_THAT(mine.labels, SizeIs(20));
    for (size_t i = 0; i < mine.labels.size(); ++i) {
      const RowId label = mine.labels[i];
      EXPECT_EQ(mine.centroids[i], RowScore(shape.CentroidRow(label)));
      EXPECT_EQ(mine.logits[i], static_cast<float>(label.value()));
      for (int64_t tree = 0; tree < shape.trees(); ++tree) {
        const auto at = static_cast<size_t>(tree);
        const uint32_t leaf = leaves_[at][label.value()];
        if (leaf == kNoLeaf) continue;
        const float own = RowScore(shape.LabelRow(tree, label));
        EXPECT_EQ(mine.label_rows[at][i], own);
        float path = MarginLoss(own);
        for (int64_t level = 0; level < shape.label_level(); ++level) {
          path += MarginLoss(RowScore(shape.ClusterRow(tree, level, shape.ClusterOf(level, leaf))));
        }
        EXPECT_EQ(mine.paths[at][i], path);
      }
    }
  }
}

TEST_F(ComponentScorerTest, NeighboursOfAllShardsAreMerged) {
  const SparseInputs samples = Samples(2);
  const auto found = shards_.FindNeighbours(samples, 5);
  ASSERT_TRUE(found.ok()) << found.status();
  for (int64_t sample = 0; sample < 2; ++sample) {
    std::vector<uint32_t> points;
    for (const LabelledNeighbour& neighbour : found->Of(sample)) {
      points.push_back(neighbour.point);
      EXPECT_THAT(neighbour.labels, SizeIs(kLabelsOfPoint));
    }
    EXPECT_THAT(points, ElementsAre(0, 1, 2, 3, 4));
  }
}

TEST_F(ComponentScorerTest, NobodyIsAskedForNoRows) {
  std::vector<RowId> rows;
  const auto scores = shards_.ScoreRows(Samples(1), {0, 0}, rows);
  ASSERT_TRUE(scores.ok()) << scores.status();
  EXPECT_THAT(*scores, IsEmpty());
  EXPECT_THAT(log_, IsEmpty());
}

}  // namespace
}  // namespace dslide
