#include "core/engine/data/group_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <set>

#include "tests/unit/core/engine/data/test_files.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(GroupSplit, GroupsStayTogether) {
  std::vector<uint32_t> groups;
  for (uint32_t i = 0; i < 1000; ++i) groups.push_back(i % 2 == 0 ? i / 10 : 100 + i % 37);
  const std::vector<uint8_t> held_out = HoldOutGroups(groups, 3, 0.2, 0);
  std::set<uint32_t> out;
  std::set<uint32_t> in;
  for (size_t i = 0; i < groups.size(); ++i) (held_out[i] != 0 ? out : in).insert(groups[i]);
  for (const uint32_t group : out) EXPECT_FALSE(in.contains(group));
  const int count = std::accumulate(held_out.begin(), held_out.end(), 0);
  EXPECT_LE(count, 200);
  EXPECT_GT(count, 150);
  EXPECT_EQ(held_out, HoldOutGroups(groups, 3, 0.2, 0));
  EXPECT_NE(held_out, HoldOutGroups(groups, 4, 0.2, 0));
  const std::vector<uint8_t> few = HoldOutGroups(groups, 3, 0.2, 40);
  EXPECT_LE(std::accumulate(few.begin(), few.end(), 0), 40);
  EXPECT_THAT(HoldOutGroups({}, 3, 0.2, 0), ElementsAre());
}

TEST(GroupSplit, LargeGroupsComeLast) {
  // One of 100 points among singles.
  std::vector<uint32_t> groups(100, 0);
  for (uint32_t i = 1; i <= 900; ++i) groups.push_back(i);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<uint8_t> held_out = HoldOutGroups(groups, seed, 0.2, 0);
    EXPECT_EQ(held_out[0], 0) << seed;
    EXPECT_EQ(std::accumulate(held_out.begin(), held_out.end(), 0), 200) << seed;
  }
  // All are large: as many as fit.
  for (uint32_t i = 0; i < groups.size(); ++i) groups[i] = i / 100;
  const std::vector<uint8_t> held_out = HoldOutGroups(groups, 7, 0.25, 0);
  EXPECT_EQ(std::accumulate(held_out.begin(), held_out.end(), 0), 200);
}

TEST(GroupSplit, FilesHaveALineForEachPoint) {
  const TempDir dir;
  const std::string path = dir.File("groups.txt");
  std::ofstream(path) << "bash\nzlib\nbash\n\n";
  const auto groups = ReadGroups(path, 4);
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_THAT(*groups, ElementsAre(0, 1, 0, 2));
  const absl::Status wrong = ReadGroups(path, 5).status();
  EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("has 4 lines, the data 5 points"));
  EXPECT_FALSE(ReadGroups(path + ".none", 4).ok());
}

}  // namespace
}  // namespace dslide
