#include "core/engine/data/text/description_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(DescriptionWordsTest, SplitsAsDocumented) {
  EXPECT_THAT(DescriptionWords("Real-time strategy game (C++), v2.0..."),
              ElementsAre("real", "time", "strategy", "game", "c++", "v2.0"));
  EXPECT_THAT(DescriptionWords("libboost-filesystem1.74.0-dev"),
              ElementsAre("libboost", "filesystem1.74.0", "dev"));
  EXPECT_THAT(DescriptionWords("Tk windows name:Python3-tk"),
              ElementsAre("tk", "windows", "name:python3", "name:tk"));
  EXPECT_THAT(DescriptionWords("name: name:- a"), ElementsAre("a"));
  EXPECT_THAT(DescriptionWords("go go GO"), ElementsAre("go", "go", "go"));
  EXPECT_THAT(DescriptionWords("na\xc3\xafve"), ElementsAre("na", "ve"));
  EXPECT_THAT(DescriptionWords(" -- ... --"), IsEmpty());
  EXPECT_THAT(DescriptionWords(""), IsEmpty());
}

}  // namespace
}  // namespace dslide
