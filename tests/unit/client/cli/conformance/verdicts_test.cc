#include "client/cli/conformance/verdicts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"

namespace dslide::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ChapterSetTest, NamesAreChosenAndTheOthersLeftOut) {
  const auto chosen = ChapterSet::Parse("training,connecting,models,owners,gather,scatter,jobs");
  ASSERT_TRUE(chosen.ok());
  EXPECT_TRUE(chosen->has(Chapter::kJobs));
  EXPECT_FALSE(chosen->has(Chapter::kDense));
  EXPECT_THAT(chosen->LeftOut(), ElementsAre("sequence", "recovery", "first-rows", "top-k", "dense",
                                             "dropout", "sigmoid"));
}

TEST(ChapterSetTest, WithoutNamesAllAreTaken) {
  EXPECT_TRUE(ChapterSet::Parse("")->LeftOut().empty());
  EXPECT_TRUE(ChapterSet::All().LeftOut().empty());
}

TEST(ChapterSetTest, AnUnknownNameIsRefusedWithTheKnownOnes) {
  for (const char* const names : {"dens", "gather,", "gather, scatter"}) {
    const absl::Status refused = ChapterSet::Parse(names).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << names;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("they are connecting, models"));
  }
}

TEST(VerdictsTest, OnlyChaptersThatAreTakenCount) {
  Verdicts verdicts(*ChapterSet::Parse("gather"), nullptr);
  verdicts.Add({.chapter = Chapter::kScatter, .call = "Scatter", .field = "rows"});
  EXPECT_FALSE(verdicts.Passed());
  verdicts.Saw(Chapter::kGather);
  EXPECT_TRUE(verdicts.Passed());
  EXPECT_EQ(verdicts.Json()["chapters"][3]["verdict"], "pass");
  EXPECT_EQ(verdicts.Json()["chapters"][4]["verdict"], "left out");
  verdicts.Add({.chapter = Chapter::kGather, .call = "Gather", .field = "rows"});
  EXPECT_FALSE(verdicts.Passed());
}

}  // namespace
}  // namespace dslide::cli
