// Points that stream into a memory: what is kept is what a shard has that never saw the others.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/counter_rng.h"
#include "core/base/reason.h"
#include "core/protocol/reason_words.h"
#include "services/shard/state/components.h"
#include "tests/unit/services/shard/state/component_samples.h"

namespace dslide::shard {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Point number n came at time n / 10, in a stream that is not quite in order.
uint32_t TimeOf(uint32_t number) {
  return number / 10 + static_cast<uint32_t>(CounterRng(DeriveKey(9, number)).NextBelow(7));
}

AppendPointsOp TimedPoints(const std::vector<uint32_t>& numbers, uint32_t expire_before) {
  AppendPointsOp op = NoPoints();
  for (const uint32_t number : numbers) {
    AddSamplePoint(number, op);
    op.times.push_back(TimeOf(number));
  }
  op.expire_before = expire_before;
  return op;
}

std::vector<uint32_t> NumbersFrom(uint32_t first, uint32_t last) {
  std::vector<uint32_t> numbers;
  for (uint32_t number = first; number < last; ++number) numbers.push_back(number);
  return numbers;
}

std::map<uint32_t, std::string> RecordsOf(const ComponentShard& shard, size_t table) {
  std::map<uint32_t, std::string> rows;
  shard.Collect(table, rows);
  return rows;
}

// All that a shard answers.
void ExpectSameAnswers(ComponentShard& a, ComponentShard& b) {
  for (size_t table = 0; table < 3; ++table) EXPECT_EQ(RecordsOf(a, table), RecordsOf(b, table));
  const FindNeighboursOp find{.table = "points",
                              .inputs = ComponentPoints(3000, 3040).inputs,
                              .k = 15,
                              .left_out = NumbersFrom(0, 40)};
  const auto found_a = a->FindNeighbours(find, 1 << 20);
  const auto found_b = b->FindNeighbours(find, 1 << 20);
  ASSERT_TRUE(found_a.ok() && found_b.ok());
  EXPECT_EQ(found_a->counts, found_b->counts);
  EXPECT_EQ(found_a->points, found_b->points);
  EXPECT_EQ(found_a->similarities, found_b->similarities);
  EXPECT_EQ(found_a->labels, found_b->labels);
  const auto none_a = a->AppendPoints(NoPoints());
  const auto none_b = b->AppendPoints(NoPoints());
  ASSERT_TRUE(none_a.ok() && none_b.ok());
  EXPECT_EQ(none_a->points, none_b->points);
  EXPECT_EQ(none_a->next, none_b->next);
}

// The slow way: which numbers are in the memory.
class SlowMemory {
 public:
  void Append(const std::vector<uint32_t>& numbers, uint32_t expire_before) {
    std::erase_if(by_row_, [&](const auto& it) { return TimeOf(it.second) < expire_before; });
    for (const uint32_t number : numbers) {
      if (TimeOf(number) < expire_before) continue;
      uint32_t& present = by_row_.try_emplace(number % kComponentPoints, number).first->second;
      present = std::max(present, number);
    }
  }
  std::vector<uint32_t> Numbers() const {
    std::vector<uint32_t> numbers;
    for (const auto& [row, number] : by_row_) numbers.push_back(number);
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  }

 private:
  std::map<uint32_t, uint32_t> by_row_;
};

TEST(PointStreamTest, WhatWasForgottenLeavesNoTrace) {
  for (const int number : {0, 1}) {
    CounterRng rng(17);
    ComponentShard shard(ComponentSpec(), 2, number, 2);
    SlowMemory slow;
    uint32_t next = 0;
    uint32_t expire_before = 0;
    for (int round = 0; round < 60; ++round) {
      // Forwards mostly, sometimes from before, with gaps; now and then nothing but an expiry.
      const auto back = static_cast<uint32_t>(rng.NextBelow(4) == 0 ? rng.NextBelow(300) : 0);
      uint32_t at = next - std::min(next, back);
      std::vector<uint32_t> numbers;
      const uint64_t count = 40 * rng.NextBelow(3);
      for (uint64_t i = 0; i < count; ++i) {
        at += 1 + (rng.NextBelow(5) == 0 ? 3 : 0);
        numbers.push_back(at);
      }
      next = std::max(next, at);
      if (rng.NextBelow(3) == 0) {
        expire_before = std::max(expire_before, TimeOf(next) - std::min(TimeOf(next), 9u));
      }
      const uint32_t before = rng.NextBelow(2) == 0 ? 0 : expire_before;
      const auto appended = shard->AppendPoints(TimedPoints(numbers, before));
      ASSERT_TRUE(appended.ok()) << appended.status();
      slow.Append(numbers, before);
      if (round % 20 == 19) SolveComponents(shard);
    }
    ComponentShard fresh(ComponentSpec(), 2, number, 1);
    const std::vector<uint32_t> survivors = slow.Numbers();
    ASSERT_GT(survivors.size(), 30u);
    ASSERT_GT(next, 5 * kComponentPoints);
    const auto whole = fresh->AppendPoints(TimedPoints(survivors, 0));
    ASSERT_TRUE(whole.ok());
    EXPECT_EQ(whole->points, static_cast<int64_t>(survivors.size()));
    EXPECT_EQ(whole->next, int64_t{survivors.back()} + 1);
    SolveComponents(fresh);
    SolveComponents(shard);
    ExpectSameAnswers(shard, fresh);
    // What is derived comes back from the records.
    ASSERT_TRUE(shard->Rebuild().ok());
    ExpectSameAnswers(shard, fresh);
  }
}

TEST(PointStreamTest, TheNewestOfARowStays) {
  ComponentShard shard(ComponentSpec(), 1, 0, 1);
  EXPECT_EQ(shard->AppendPoints(NoPoints())->next, 0);
  constexpr uint32_t kRows = kComponentPoints;
  const auto append = [&](const std::vector<uint32_t>& numbers) {
    const auto reply = shard->AppendPoints(TimedPoints(numbers, 0));
    EXPECT_TRUE(reply.ok()) << reply.status();
    return std::pair(reply->points, reply->next);
  };
  EXPECT_EQ(append({3, kRows + 3, kRows + 4}), std::pair(int64_t{2}, int64_t{kRows + 5}));
  const auto rows = RecordsOf(shard, 0);
  // Repeated, and from before: no change.
  EXPECT_EQ(append({3, kRows + 3}), std::pair(int64_t{2}, int64_t{kRows + 5}));
  EXPECT_EQ(RecordsOf(shard, 0), rows);
  EXPECT_EQ(PointView(rows.at(3).data()).number(), kRows + 3);
  EXPECT_EQ(PointView(rows.at(4).data()).time(), TimeOf(kRows + 4));
  // Any number of 32 bits.
  EXPECT_EQ(append({0xffffffff}).second, int64_t{1} << 32);

  AppendPointsOp other = TimedPoints({kRows + 4}, 0);
  ++other.times[0];
  const absl::Status refused = shard->AppendPoints(other).status();
  EXPECT_EQ(ReasonOf(refused), reason::kBadRowId);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("points never change"));
}

TEST(PointStreamTest, OldPointsExpireAndAreNotAdded) {
  ComponentShard shard(ComponentSpec(), 1, 0, 1);
  AppendPointsOp op = ComponentPoints(0, 4);
  op.times = {5, 9, 6, 5};
  EXPECT_EQ(shard->AppendPoints(op)->points, 4);
  AppendPointsOp more = ComponentPoints(10, 12);
  more.times = {5, 6};
  more.expire_before = 6;
  auto reply = shard->AppendPoints(more);
  EXPECT_EQ(reply->points, 3);  // 1, 2 and 11
  EXPECT_EQ(reply->next, 12);
  AppendPointsOp expire = NoPoints();
  expire.expire_before = 7;
  reply = shard->AppendPoints(expire);
  EXPECT_EQ(reply->points, 1);
  EXPECT_EQ(reply->next, 2);  // as far as the records tell
  expire.expire_before = 10;
  reply = shard->AppendPoints(expire);
  EXPECT_EQ(reply->points, 0);
  EXPECT_EQ(reply->next, 0);
  // A number whose point has expired is free.
  AppendPointsOp again = ComponentPoints(100, 101);
  again.numbers = {1};
  EXPECT_EQ(shard->AppendPoints(again)->points, 1);
}

TEST(PointStreamTest, RowsOfForgottenLabelsGoWhenTheyAreSolvedAgain) {
  ComponentShard shard(ComponentSpec(), 1, 0, 1);
  AppendPointsOp op = NoPoints();
  op.numbers = {0, 1};
  op.times = {1, 2};
  op.inputs = {.offsets = {0, 2, 3},
               .features = {RowId(3), RowId(1000), RowId(4)},
               .values = {0.5f, 0.5f, 1}};
  op.label_offsets = {0, 1, 3};
  op.labels = {RowId(7), RowId(5), RowId(6)};
  ASSERT_TRUE(shard->AppendPoints(op).ok());
  const SolveRowsOp solve{
      .table = "linear", .tree = -1, .first = 5, .count = 3, .count_points = true};
  auto solved = shard->SolveRows(solve);
  ASSERT_TRUE(solved.ok()) << solved.status();
  EXPECT_THAT(solved->label_points, ElementsAre(1, 1, 1));
  EXPECT_EQ(solved->rows, 3);
  AppendPointsOp expire = NoPoints();
  expire.expire_before = 2;
  ASSERT_TRUE(shard->AppendPoints(expire).ok());
  // The row outlives its points, with a feature that no point has any more.
  ASSERT_TRUE(shard->Rebuild().ok());
  ScoreRowsOp score{.table = "linear",
                    .inputs = {.offsets = {0, 1}, .features = {RowId(1000)}, .values = {1}},
                    .row_offsets = {0, 1},
                    .rows = {RowId(7)}};
  EXPECT_GT(shard->ScoreRows(score)->scores[0], 0.5f);
  solved = shard->SolveRows(solve);
  EXPECT_THAT(solved->label_points, ElementsAre(1, 1, 0));
  EXPECT_EQ(solved->rows, 2);
  EXPECT_EQ(shard->ScoreRows(score)->scores[0], 0);
}

TEST(PointStreamTest, MemoryStaysBoundedOverManyWraps) {
  ComponentShard shard(ComponentSpec(), 1, 0, 1);
  std::vector<int64_t> bytes;
  for (uint32_t wrap = 0; wrap < 20; ++wrap) {
    AppendPointsOp op = ComponentPoints(wrap * kComponentPoints, (wrap + 1) * kComponentPoints);
    // Other features each time, of the same number in all.
    for (size_t i = 0; i < op.numbers.size(); ++i) {
      for (uint32_t f = op.inputs.offsets[i]; f < op.inputs.offsets[i + 1]; ++f) {
        op.inputs.features[f] = RowId(op.inputs.features[f].value() + 90 * (19 - wrap));
      }
    }
    ASSERT_TRUE(shard->AppendPoints(op).ok());
    bytes.push_back(shard->memory_bytes());
  }
  EXPECT_EQ(shard->AppendPoints(NoPoints())->points, kComponentPoints);
  EXPECT_LT(bytes.back(), 1.3 * static_cast<double>(bytes[1]));
}

TEST(PointStreamTest, APointInTheWrongRowIsDamage) {
  ComponentShard shard(ComponentSpec(), 1, 0, 1);
  ASSERT_TRUE(shard->AppendPoints(ComponentPoints(0, 5)).ok());
  const absl::Span<const char> record = shard.store(0).Record(LocalRow(2));
  const std::string copy(record.begin(), record.end());
  shard.store(0).Put(LocalRow(9), copy);
  const absl::Status status = shard->Rebuild();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("table \"points\", row 9: point 2 does not belong here"));
}

}  // namespace
}  // namespace dslide::shard
