#include "core/spec/retired_labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace dslide {
namespace {

using ::testing::HasSubstr;

RetiredLabels Labels(const std::string& text) { return *RetiredLabels::Parse(text); }

std::set<int64_t> Each(const RetiredLabels& labels) {
  std::set<int64_t> each;
  for (int64_t label = 0; label < 70; ++label) {
    if (labels.Contains(label)) each.insert(label);
  }
  return each;
}

TEST(RetiredLabelsTest, EqualSetsHaveOneText) {
  EXPECT_EQ(Labels("").ToText(), "");
  EXPECT_EQ(Labels("7").ToText(), "7");
  EXPECT_EQ(Labels("12,3,7-11,8,3").ToText(), "3,7-12");
  EXPECT_EQ(Labels("0-1,2,4-4").ToText(), "0-2,4");
  EXPECT_EQ(Labels("3,7-12").size(), 7);
  EXPECT_EQ(Labels("3,7-12").end(), 13);
  EXPECT_EQ(Labels("").end(), 0);
}

TEST(RetiredLabelsTest, AddsAndTakesAwayAsSetsDo) {
  uint64_t random = 1;
  for (int round = 0; round < 200; ++round) {
    RetiredLabels sets[2];
    for (RetiredLabels& set : sets) {
      for (int part = 0; part < 4; ++part) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const auto first = static_cast<int64_t>((random >> 33) % 50);
        const auto more = static_cast<int64_t>((random >> 50) % 12);
        set = set.With(RetiredLabels({{first, first + more}}));
      }
    }
    std::set<int64_t> both = Each(sets[0]);
    std::set<int64_t> rest = both;
    for (const int64_t label : Each(sets[1])) {
      both.insert(label);
      rest.erase(label);
    }
    EXPECT_EQ(Each(sets[0].With(sets[1])), both);
    const RetiredLabels without = sets[0].Without(sets[1]);
    EXPECT_EQ(Each(without), rest) << sets[0].ToText() << " without " << sets[1].ToText();
    EXPECT_EQ(without.size(), static_cast<int64_t>(rest.size()));
    EXPECT_EQ(Labels(without.ToText()).ranges(), without.ranges());
  }
}

TEST(RetiredLabelsTest, RefusesWhatIsNoLabel) {
  for (const char* text : {"x", "1,", ",", "5-3", "-1", "1-", "1-2-3", "4294967296", "1 2"}) {
    const auto parsed = RetiredLabels::Parse(text);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("names no labels")) << text;
  }
}

}  // namespace
}  // namespace dslide
