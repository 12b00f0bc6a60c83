#include "core/engine/memory/neighbour_votes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;

TEST(VoteCounter, SharesOfTheWeight) {
  const std::vector<RowId> first = {RowId(1), RowId(4)};
  const std::vector<RowId> second = {RowId(4)};
  const std::vector<RowId> none;
  const std::vector<LabelledNeighbour> neighbours = {
      {.point = 10, .similarity = 0.6f, .labels = first},
      {.point = 11, .similarity = 0.8f, .labels = second},
      {.point = 12, .similarity = 0.0f, .labels = none}};
  VoteCounter counter(5, 2, 10);
  LabelVotes votes;
  counter.Count(neighbours, votes);
  EXPECT_THAT(votes.labels, ElementsAre(RowId(4), RowId(1)));
  EXPECT_THAT(votes.shares, ElementsAre(FloatEq(1.0f), FloatEq(0.36f)));
  EXPECT_THAT(votes.divided_shares, ElementsAre(FloatEq(0.82f), FloatEq(0.18f)));
  EXPECT_THAT(votes.near_shares, ElementsAre(FloatEq(1.0f), FloatEq(0.1296f / 0.5392f)));
  EXPECT_EQ(votes.nearest, 0.8f);
  // Nothing is left of the last query.
  counter.Count(absl::MakeConstSpan(neighbours).subspan(1, 1), votes);
  EXPECT_THAT(votes.labels, ElementsAre(RowId(4)));
  EXPECT_THAT(votes.shares, ElementsAre(FloatEq(1.0f)));
  counter.Count({}, votes);
  EXPECT_THAT(votes.labels, ElementsAre());
  EXPECT_EQ(votes.nearest, 0);
}

TEST(VoteCounter, WeightsWhoseSquaresVanish) {
  const std::vector<RowId> labels = {RowId(2)};
  VoteCounter counter(5, 16, 10);
  LabelVotes votes;
  counter.Count({{.point = 1, .similarity = 1e-12f, .labels = labels}}, votes);
  EXPECT_THAT(votes.shares, ElementsAre(FloatEq(1.0f)));
  EXPECT_THAT(votes.near_shares, ElementsAre(0.0f));
}

TEST(VoteCounter, KeepsTheBestAndTiesGoToTheSmallerLabel) {
  const std::vector<RowId> labels = {RowId(0), RowId(2), RowId(3), RowId(9)};
  const std::vector<RowId> more = {RowId(3)};
  VoteCounter counter(9, 1, 2);
  LabelVotes votes;
  counter.Count({{.point = 1, .similarity = 0.5f, .labels = labels},
                 {.point = 2, .similarity = 0.25f, .labels = more}},
                votes);
  // Label 9 is beyond those that the counter knows.
  EXPECT_THAT(votes.labels, ElementsAre(RowId(3), RowId(0)));
}

TEST(VoteCounter, TheOrderOfTheNeighboursDoesNotMatter) {
  std::vector<std::vector<RowId>> labels;
  std::vector<LabelledNeighbour> neighbours;
  for (uint32_t i = 0; i < 50; ++i) labels.push_back({RowId(i % 7), RowId(7 + i % 5)});
  for (uint32_t i = 0; i < 50; ++i) {
    neighbours.push_back(
        {.point = i, .similarity = 1.0f / static_cast<float>(3 + i), .labels = labels[i]});
  }
  VoteCounter counter(20, 1.7, 12);
  LabelVotes forward;
  LabelVotes backward;
  counter.Count(neighbours, forward);
  std::reverse(neighbours.begin(), neighbours.end());
  counter.Count(neighbours, backward);
  EXPECT_EQ(forward.labels, backward.labels);
  EXPECT_EQ(forward.shares, backward.shares);
  EXPECT_EQ(forward.divided_shares, backward.divided_shares);
  EXPECT_EQ(forward.near_shares, backward.near_shares);
}

}  // namespace
}  // namespace dslide
