#include "services/common/files/directory_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace dslide {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class DirectoryLockTest : public ::testing::Test {
 protected:
  ~DirectoryLockTest() override { fs::remove_all(root_); }
  const fs::path root_ =
      fs::path(::testing::TempDir()) / ("directory_lock_test_" + std::to_string(getpid()));
};

TEST_F(DirectoryLockTest, OneAtATime) {
  auto first = DirectoryLock::Take(root_.string());
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = DirectoryLock::Take(root_.string());
  EXPECT_TRUE(absl::IsFailedPrecondition(second.status()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use by another process"));
  first->reset();
  EXPECT_TRUE(DirectoryLock::Take(root_.string()).ok());
}

TEST_F(DirectoryLockTest, AnUnwritableDirectoryIsNamed) {
  fs::create_directories(root_);
  std::ofstream(root_ / "file") << "x";
  const auto lock = DirectoryLock::Take((root_ / "file" / "below").string());
  EXPECT_TRUE(absl::IsUnavailable(lock.status()));
  EXPECT_THAT(std::string(lock.status().message()), HasSubstr("below"));
}

}  // namespace
}  // namespace dslide
