#include "bench/train/training_child.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dslide::bench {
namespace {

TEST(LastJsonLineTest, TakesTheLastObject) {
  const auto json = LastJsonLine("progress\n{\"a\": 1}\n{\"a\": 2}\nwarning: late\n");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ((*json)["a"], 2);
}

TEST(LastJsonLineTest, SkipsWhatOnlyLooksLikeOne) {
  const auto json = LastJsonLine("{\"a\": 1}\n{not json\n");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ((*json)["a"], 1);
}

TEST(LastJsonLineTest, ShowsTheEndOfOutputWithoutOne) {
  const auto json = LastJsonLine("dslide train: no such file\n");
  EXPECT_EQ(json.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(json.status().message()), testing::HasSubstr("no such file"));
}

TEST(RunTrainingTest, NamesTheProgramThatIsNotThere) {
  // The test binary's folder may hold dslide: then the missing data is what is named.
  const auto json = RunTraining({"--data", "/nonexistent/data.txt"});
  EXPECT_FALSE(json.ok());
  EXPECT_THAT(std::string(json.status().message()), testing::HasSubstr("dslide"));
}

}  // namespace
}  // namespace dslide::bench
