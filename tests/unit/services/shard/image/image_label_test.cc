#include "services/shard/image/image_label.h"

#include <gtest/gtest.h>

namespace dslide::shard {
namespace {

TEST(ImageLabelTest, EveryLabelSaysWhatItIsOf) {
  EXPECT_EQ(CheckpointLabel(7), "checkpoint-00000000000000000007");
  EXPECT_EQ(CheckpointOf(CheckpointLabel(UINT64_MAX)), UINT64_MAX);
  const LogImage image{.root = 3, .lsn = 41};
  EXPECT_EQ(LogLabel(image), "log-00000000000000000003-00000000000000000041");
  EXPECT_EQ(LogImageOf(LogLabel(image)), image);
  const ModelRows rows{.model = "log-1", .checkpoint = "best"};
  EXPECT_EQ(ModelLabel(rows), "log-1.best");
  EXPECT_EQ(ModelRowsOf("log-1.best"), rows);
}

TEST(ImageLabelTest, NoLabelIsTakenForAnother) {
  for (const char* other : {"", "stopped", "checkpoint-7", "checkpoint-0000000000000000000x",
                            "checkpoint-99999999999999999999", "log-1-2", "model."}) {
    EXPECT_FALSE(CheckpointOf(other).has_value()) << other;
    EXPECT_FALSE(LogImageOf(other).has_value()) << other;
    EXPECT_FALSE(ModelRowsOf(other).has_value()) << other;
  }
  EXPECT_FALSE(LogImageOf(CheckpointLabel(7)).has_value());
  EXPECT_FALSE(CheckpointOf(LogLabel({})).has_value());
}

// The newest image is the last: by root, then by record.
TEST(ImageLabelTest, LabelsOfTheLogSortAsItsImagesDo) {
  EXPECT_LT(LogLabel({.root = 9, .lsn = 400}), LogLabel({.root = 10, .lsn = 10}));
  EXPECT_LT(LogLabel({.root = 10, .lsn = 99}), LogLabel({.root = 10, .lsn = 100}));
}

}  // namespace
}  // namespace dslide::shard
