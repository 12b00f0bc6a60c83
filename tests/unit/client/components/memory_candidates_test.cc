#include "client/components/memory_candidates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/engine/data/sparse_dataset.h"
#include "tests/unit/patience.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kLabels = 100;

// Its points are so near to every sample that carry label 0, 1, ... as often as their numbers say.
class FakeMemory final : public StepChannel {
 public:
  std::shared_ptr<PendingStep> Send(int64_t, int64_t, StepOp op) override {
    auto pending = std::make_shared<PendingStep>(absl::Now() + kPatience,
                                                 absl::DeadlineExceededError("too late"));
    const auto& find = std::get<FindNeighboursOp>(op);
    FindNeighboursReply reply;
    reply.label_offsets = {0};
    for (int64_t s = 0; s < find.inputs.batch(); ++s) {
      asked.push_back(find.left_out.empty() ? -1 : int64_t{find.left_out[static_cast<size_t>(s)]});
      reply.counts.push_back(static_cast<uint32_t>(labels));
      for (int64_t label = 0; label < labels; ++label) {
        reply.points.emplace_back(static_cast<uint32_t>(label));
        // Shares fall with the label.
        reply.similarities.push_back(1.0f / static_cast<float>(label + 1));
        reply.labels.emplace_back(static_cast<uint32_t>(label));
        reply.label_offsets.push_back(static_cast<uint32_t>(reply.labels.size()));
      }
    }
    if (find.known_points >= labels || forgetful) {
      reply.labels_left_out = true;
      reply.labels.clear();
      reply.label_offsets = {0};
    }
    pending->Complete(ReplyBody(std::move(reply)), Outcome::kApplied);
    return pending;
  }

  int64_t labels = 50;
  bool forgetful = false;      // leaves out labels that nobody knows
  std::vector<int64_t> asked;  // who was left out
};

class MemoryCandidatesTest : public ::testing::Test {
 protected:
  MemoryCandidatesTest() { label_points_[3] = 7; }

  static ModelSpec Spec() {
    ModelSpec spec;
    spec.name = "m";
    TableSpec memory;
    memory.name = "points";
    memory.role = TableRole::kMemory;
    memory.memory.labels = kLabels;
    memory.memory.similarity_power = 1;
    spec.tables = {memory};
    return spec;
  }
  MemoryCandidates Make(uint64_t seed, PointLabels known = PointLabels()) {
    return MemoryCandidates(spec_.tables[0].memory, shards_, std::move(known), label_points_,
                            /*points=*/20, seed);
  }
  // As many points, each with the label of its number.
  static PointLabels LabelsOfPoints(int64_t points) {
    std::string text = absl::StrCat(points, " 1 ", kLabels, "\n");
    for (int64_t point = 0; point < points; ++point) absl::StrAppend(&text, point, " 0:1\n");
    return *PointLabels::Read(**SparseDataset::FromText("data", text, {}));
  }
  // Samples of one feature with these labels.
  static SparseBatch Samples(const std::vector<std::vector<uint32_t>>& labels) {
    SparseBatch samples;
    for (const std::vector<uint32_t>& mine : labels) {
      samples.features.emplace_back(0);
      samples.values.push_back(1);
      for (const uint32_t label : mine) samples.labels.emplace_back(label);
      samples.FinishSample();
    }
    return samples;
  }

  const ModelSpec spec_ = Spec();
  const ComponentTables tables_{spec_};
  FakeMemory memory_;
  const SlotMap slots_ = *SlotMap::Deal(4, std::vector<double>{1.0});
  int64_t next_step_ = 1;
  ComponentShards shards_{tables_, {&memory_}, slots_, nullptr, &next_step_};
  std::vector<uint32_t> label_points_ = std::vector<uint32_t>(kLabels, 1);
};

TEST_F(MemoryCandidatesTest, LabelsBestAndSomeOfTheOthersAreActive) {
  MemoryCandidates candidates = Make(1);
  const std::vector<int64_t> points = {4};
  const ExplicitRows<RowId> rows = *candidates.ForTraining(Samples({{2, 70}}), points, 0);
  std::map<uint32_t, std::pair<float, float>> by_row;  // offset, weight
  for (size_t i = 0; i < rows.rows.size(); ++i) {
    by_row[rows.rows[i].value()] = {rows.logit_offsets[i], rows.weights[i]};
  }
  // 20 besides the label 2, which is among the 50 candidates; 10 of the other 29; the label 70.
  ASSERT_EQ(by_row.size(), 1 + 20 + 10 + 1);
  for (uint32_t row = 0; row <= 20; ++row) EXPECT_EQ(by_row[row].second, 1) << row;
  EXPECT_EQ(by_row[70].second, 1);
  double rest = 0;
  for (const auto& [row, values] : by_row) rest += row > 20 && row != 70 ? values.second : 0;
  EXPECT_FLOAT_EQ(static_cast<float>(rest), 29);

  double total = 0;
  for (int i = 1; i <= 50; ++i) total += 1.0 / i;
  const double mean = (99.0 + 7.0) / 100;
  EXPECT_THAT(
      by_row[3].first,
      FloatEq(static_cast<float>(std::log((7 + 1 + 10 * (1.0 / 4 / total) * 20) / (mean + 1)))));
  EXPECT_THAT(by_row[70].first, FloatEq(static_cast<float>(std::log(2 / (mean + 1)))));
}

TEST_F(MemoryCandidatesTest, PointsAreAskedForOnceAndNotTheirOwnNeighbours) {
  MemoryCandidates candidates = Make(1);
  const std::vector<int64_t> points = {4, 9};
  const SparseBatch samples = Samples({{2}, {}});
  const ExplicitRows<RowId> first = *candidates.ForTraining(samples, points, 0);
  EXPECT_THAT(memory_.asked, ElementsAre(4, 9));
  const ExplicitRows<RowId> again = *candidates.ForTraining(samples, points, 0);
  EXPECT_EQ(first.rows, again.rows);
  const ExplicitRows<RowId> later = *candidates.ForTraining(samples, points, 1);
  EXPECT_NE(first.rows, later.rows);
  EXPECT_NE(first.rows, Make(2).ForTraining(samples, points, 0)->rows);
  EXPECT_THAT(memory_.asked, ElementsAre(4, 9, 4, 9));  // by the second one
  EXPECT_EQ(candidates.ForEvaluation(samples, points)->rows.size(), 100);
  EXPECT_THAT(memory_.asked, ElementsAre(4, 9, 4, 9));
}

TEST_F(MemoryCandidatesTest, LabelsThatAreKnownNeedNotTravel) {
  const std::vector<int64_t> points = {4, 9};
  const SparseBatch samples = Samples({{2}, {}});
  const ExplicitRows<RowId> all = *Make(1).ForEvaluation(samples, points);
  for (const int64_t known : {49, 50, 51}) {
    MemoryCandidates candidates = Make(1, LabelsOfPoints(known));
    const ExplicitRows<RowId> rows = *candidates.ForEvaluation(samples, points);
    EXPECT_EQ(rows.rows, all.rows) << known;
    EXPECT_EQ(rows.logit_offsets, all.logit_offsets) << known;
  }
}

TEST_F(MemoryCandidatesTest, LabelsThatNobodyKnowsAreAnError) {
  memory_.forgetful = true;
  MemoryCandidates candidates = Make(1, LabelsOfPoints(49));
  const absl::Status status = candidates.ForEvaluation(Samples({{2}}), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("shard 0 left out the labels of point 49; only 49 points are known"));
}

TEST_F(MemoryCandidatesTest, AllCandidatesAreScored) {
  MemoryCandidates candidates = Make(1);
  memory_.labels = 3;
  const ExplicitRows<RowId> rows = *candidates.ForEvaluation(Samples({{90}, {}}), {});
  EXPECT_THAT(memory_.asked, ElementsAre(-1, -1));
  EXPECT_THAT(rows.offsets, ElementsAre(0, 3, 6));
  EXPECT_THAT(rows.rows, ElementsAre(RowId(0), RowId(1), RowId(2), RowId(0), RowId(1), RowId(2)));
  EXPECT_GT(rows.logit_offsets[0], rows.logit_offsets[1]);
  EXPECT_THAT(rows.weights, IsEmpty());
}

}  // namespace
}  // namespace dslide
