#include "core/engine/data/point_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/core/engine/data/test_files.h"

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PointTimes, OneOfEachPoint) {
  const TempDir folder;
  const std::string path = folder.File("times.txt");
  WriteFile(path, "7\n0\r\n4294967295\n");
  const auto times = ReadPointTimes(path, 3);
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_THAT(*times, ElementsAre(7, 0, 4294967295));
  EXPECT_THAT(std::string(ReadPointTimes(path, 4).status().message()),
              HasSubstr("has 3 lines, the data 4 points"));
}

TEST(PointTimes, OtherLinesAreNamed) {
  const TempDir folder;
  const std::string path = folder.File("times.txt");
  for (const char* const wrong : {"-1", "4294967296", "1.5", "", "today"}) {
    WriteFile(path, absl::StrCat("7\n", wrong, "\n"));
    const absl::Status refused = ReadPointTimes(path, 2).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("times.txt:2:1: found")) << wrong;
  }
}

}  // namespace
}  // namespace dslide
