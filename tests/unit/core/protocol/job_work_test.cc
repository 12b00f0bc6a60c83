#include "core/protocol/job_work.h"

#include <gtest/gtest.h>

#include <string>

namespace dslide {
namespace {

// The Python client makes the same names.
TEST(JobWorkTest, ABestCheckpointIsNamedAfterItsJob) {
  EXPECT_EQ(BestCheckpointOf("night"), "best-night");
  EXPECT_EQ(BestCheckpointOf(std::string(59, 'a')), "best-" + std::string(59, 'a'));
  const std::string one = BestCheckpointOf(std::string(60, 'a'));
  EXPECT_EQ(one, "best-" + std::string(50, 'a') + "-92b9e111");
  EXPECT_NE(one, BestCheckpointOf(std::string(60, 'a') + "b"));
  EXPECT_EQ(one.size(), 64U);
}

}  // namespace
}  // namespace dslide
