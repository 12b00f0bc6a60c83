#include "client/cli/commands/command_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace dslide::cli {
namespace {

TEST(BenchCommandTest, AMissingProgramIsNamedWithTheRemedy) {
  const auto found = BenchProgram("/nowhere");
  ASSERT_TRUE(absl::IsNotFound(found.status())) << found.status();
  EXPECT_THAT(std::string(found.status().message()),
              ::testing::AllOf(::testing::HasSubstr("/nowhere/dslide-bench"),
                               ::testing::HasSubstr("./run build")));
}

}  // namespace
}  // namespace dslide::cli
