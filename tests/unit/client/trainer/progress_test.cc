#include "client/trainer/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dslide {
namespace {

using ::testing::HasSubstr;

TEST(ProgressTest, SaysEpochLossSpeedAndWhatIsLeft) {
  TrainingProgress progress;
  progress.epoch = 2;
  progress.max_epochs = 10;
  progress.epoch_samples_done = 500;
  progress.samples_per_epoch = 1000;
  progress.recent_loss = 4.3214;
  progress.samples_per_second = 75;
  progress.active_rows_per_sample = 301.2;
  progress.recall = {.samples = 1, .top_1_found = 1, .top_10 = 10, .top_10_found = 8};
  EXPECT_EQ(FormatProgress(progress),
            "epoch 3/10  50%  loss 4.321  75 samples/s  ETA 1:40  active 301  recall 0.80");
}

TEST(ProgressTest, HasNoEtaBeforeASpeedIsKnown) {
  EXPECT_THAT(FormatProgress(TrainingProgress()), ::testing::Not(HasSubstr("ETA")));
}

TEST(FormatElapsedTest, ReadsLikeAClock) {
  EXPECT_EQ(FormatElapsed(absl::Seconds(7)), "0:07");
  EXPECT_EQ(FormatElapsed(absl::Seconds(754)), "12:34");
  EXPECT_EQ(FormatElapsed(absl::Seconds(3 * 3600 + 121)), "3:02:01");
  EXPECT_EQ(FormatElapsed(-absl::Seconds(1)), "0:00");
}

}  // namespace
}  // namespace dslide
