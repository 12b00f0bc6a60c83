// Which points are sent to which shards.

#include "client/components/component_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "tests/unit/patience.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Keeps what it was sent.
class FakePoints final : public StepChannel {
 public:
  explicit FakePoints(AppendPointsReply reply) : reply_(reply) {}

  std::shared_ptr<PendingStep> Send(int64_t, int64_t, StepOp op) override {
    auto pending = std::make_shared<PendingStep>(absl::Now() + kPatience,
                                                 absl::DeadlineExceededError("too late"));
    sent.push_back(std::get<AppendPointsOp>(std::move(op)));
    pending->Complete(ReplyBody(reply_), Outcome::kApplied);
    return pending;
  }

  std::vector<AppendPointsOp> sent;

 private:
  const AppendPointsReply reply_;
};

class ComponentShardsTest : public ::testing::TestWithParam<bool> {
 protected:
  // Whether rows are solved, from all points.
  static ModelSpec Spec(bool solved) {
    ModelSpec spec;
    spec.name = "m";
    spec.tables.resize(solved ? 3 : 1);
    spec.tables[0].name = "points";
    spec.tables[0].role = TableRole::kMemory;
    spec.tables[0].rows = 8;
    spec.tables[0].memory.labels = 10;
    if (!solved) return spec;
    spec.tables[1].role = TableRole::kLabelTrees;
    spec.tables[1].trees.depth = 1;
    spec.tables[2].role = TableRole::kLinear;
    return spec;
  }
  // Samples of one feature, their place, and its label.
  static SparseBatch Samples(uint32_t count) {
    SparseBatch samples;
    for (uint32_t i = 0; i < count; ++i) {
      samples.features.emplace_back(i);
      samples.values.push_back(1);
      samples.labels.emplace_back(i);
      samples.FinishSample();
    }
    return samples;
  }

  const ModelSpec spec_ = Spec(GetParam());
  const ComponentTables tables_{spec_};
  FakePoints first_{AppendPointsReply{.points = 3, .next = 20}};
  FakePoints second_{AppendPointsReply{.points = 4, .next = 18}};
  const SlotMap slots_ = *SlotMap::Deal(4, std::vector<double>{1.0, 1.0});
  int64_t next_step_ = 1;
  ComponentShards shards_{tables_, {&first_, &second_}, slots_, &slots_, &next_step_};
};

TEST_P(ComponentShardsTest, PointsGoToTheOwnersOfTheirRowsOrToAll) {
  const std::vector<int64_t> numbers = {6, 7, 8, 13, int64_t{0xffffffff}};
  ASSERT_TRUE(shards_.AppendPoints(numbers, Samples(5), {.of_points = {1, 2, 3, 4, 5}}).ok());
  ASSERT_TRUE(shards_.Finish().ok());
  std::vector<uint32_t> of_second;
  for (const FakePoints* const shard : {&first_, &second_}) {
    ASSERT_EQ(shard->sent.size(), 1u);
    const AppendPointsOp& op = shard->sent[0];
    std::vector<uint32_t> expected;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const RowId row(static_cast<uint32_t>(numbers[i] % 8));
      const bool mine = (slots_.OwnerOf(row).value() == 1) == (shard == &second_);
      if (!GetParam() && !mine) continue;
      const size_t at = expected.size();
      expected.push_back(static_cast<uint32_t>(numbers[i]));
      EXPECT_EQ(op.times[at], i + 1);
      EXPECT_EQ(op.inputs.features[at], RowId(static_cast<uint32_t>(i)));
      EXPECT_EQ(op.labels[at], RowId(static_cast<uint32_t>(i)));
    }
    EXPECT_EQ(op.numbers, expected);
    EXPECT_FALSE(expected.empty());
  }
}

TEST_P(ComponentShardsTest, ExpiryConcernsEveryShard) {
  const std::vector<int64_t> one = {6};
  ASSERT_TRUE(shards_.AppendPoints(one, Samples(1), {.of_points = {9}, .expire_before = 4}).ok());
  ASSERT_TRUE(shards_.AppendPoints(one, Samples(1)).ok());
  for (const FakePoints* const shard : {&first_, &second_}) {
    ASSERT_GE(shard->sent.size(), 1u);
    EXPECT_EQ(shard->sent[0].expire_before, 4);
  }
  // Without it, who gets no points hears nothing.
  EXPECT_EQ(first_.sent.size() + second_.sent.size(), GetParam() ? 4u : 3u);
}

TEST_P(ComponentShardsTest, PointsAreCounted) {
  const auto counted = shards_.CountPoints();
  ASSERT_TRUE(counted.ok());
  EXPECT_EQ(counted->points, GetParam() ? 4 : 7);
  EXPECT_EQ(counted->next, 20);
  EXPECT_THAT(first_.sent[0].numbers, IsEmpty());
  EXPECT_THAT(first_.sent[0].inputs.offsets, ElementsAre(0));
}

INSTANTIATE_TEST_SUITE_P(OwnersAndAll, ComponentShardsTest, ::testing::Bool());

}  // namespace
}  // namespace dslide
