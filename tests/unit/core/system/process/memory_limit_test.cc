#include "core/system/process/memory_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace dslide {
namespace {

class MemoryLimitTest : public ::testing::Test {
 protected:
  MemoryLimitTest() {
    std::filesystem::remove_all(root_);
    Write("/proc/self/cgroup", "");
  }
  ~MemoryLimitTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text << "\n";
  }

  const std::string root_ = absl::StrCat(::testing::TempDir(), "memory_limit.", getpid());
};

TEST_F(MemoryLimitTest, IsTheMachinesWhereNoGroupLimitsIt) {
  const int64_t all = MemoryLimitBytes(root_);
  EXPECT_GT(all, int64_t{64} << 20);
  Write("/proc/self/cgroup", "4:memory:/a\n0::/a");
  Write("/sys/fs/cgroup/a/memory.max", "max");
  Write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(MemoryLimitBytes(root_), all);
}

TEST_F(MemoryLimitTest, TakesTheLeastOfTheGroupAndThoseAboveIt) {
  Write("/proc/self/cgroup", "0::/a/b");
  Write("/sys/fs/cgroup/a/b/memory.max", "3000000");
  EXPECT_EQ(MemoryLimitBytes(root_), 3000000);
  Write("/sys/fs/cgroup/a/memory.max", "2000000");
  EXPECT_EQ(MemoryLimitBytes(root_), 2000000);
}

TEST_F(MemoryLimitTest, LooksAtTheTopInsideAContainer) {
  Write("/proc/self/cgroup", "12:cpu,memory:/docker/0123");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000");
  EXPECT_EQ(MemoryLimitBytes(root_), 1000000);
}

}  // namespace
}  // namespace dslide
