#include "core/engine/memory/elected_features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dslide {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

TEST(FeatureElection, ElectsHeavyFeatures) {
  FeatureElection election;
  // The last one holds less than half a copy's weight.
  EXPECT_THAT(election.Elect({RowId(4), RowId(7), RowId(9)}, {3.0f, -4.0f, 0.3f}),
              ElementsAre(1, 1, 0));
  EXPECT_THAT(election.Elect({}, {}), ElementsAre());
  EXPECT_THAT(election.Elect({RowId(4)}, {0.0f}), ElementsAre(0));
  EXPECT_THAT(election.Elect({RowId(4)}, {1e-20f}), ElementsAre(1));
}

TEST(FeatureElection, LikeVectorsElectCommonFeatures) {
  FeatureElection election;
  int64_t common = 0;
  int64_t elected = 0;
  for (uint32_t first = 0; first < 1000; first += 10) {
    std::vector<RowId> features;
    for (uint32_t i = 0; i < 40; ++i) features.push_back(RowId(first + i));
    const std::vector<float> values(features.size(), 1.0f);
    const auto mask = election.Elect(features, values);
    const std::vector<uint8_t> all(mask.begin(), mask.end());
    // One feature in ten is another one.
    for (uint32_t i = 36; i < 40; ++i) features[i] = RowId(5000 + first + i);
    const auto other = election.Elect(features, values);
    for (size_t i = 0; i < 36; ++i) {
      elected += all[i];
      common += all[i] & other[i];
    }
  }
  EXPECT_GT(common, elected * 8 / 10);
  EXPECT_LT(elected, 36 * 100);
}

}  // namespace
}  // namespace dslide
