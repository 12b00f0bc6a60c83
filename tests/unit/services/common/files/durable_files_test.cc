// In which order files reach the disk: a name must never be there before what it names.
//
// This file replaces fsync() and rename() of the whole test binary by ones that write down what
// they were asked, and that can fail; everything else they leave to the system.

#include "services/common/files/durable_files.h"

#include <gmock/gmock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace {

// Of the thread that runs the test; null: nobody listens.
thread_local std::vector<std::string>* calls = nullptr;
thread_local bool syncs_fail = false;

std::string NameOf(int fd) {
  char path[PATH_MAX];
  const std::string link = absl::StrCat("/proc/self/fd/", fd);
  const ssize_t size = readlink(link.c_str(), path, sizeof(path));
  return size < 0 ? "?"
                  : std::filesystem::path(std::string(path, static_cast<size_t>(size)))
                        .filename()
                        .string();
}

std::string NameOf(const char* path) { return std::filesystem::path(path).filename().string(); }

}  // namespace

extern "C" int fsync(int fd) {
  if (calls != nullptr) {
    calls->push_back(absl::StrCat("sync ", NameOf(fd)));
    if (syncs_fail) {
      errno = EIO;
      return -1;
    }
  }
  return static_cast<int>(syscall(SYS_fsync, fd));
}

// The names in the system's header are reserved.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name)
extern "C" int rename(const char* from, const char* to) noexcept {
  if (calls != nullptr) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(from, error);
    calls->push_back(
        absl::StrCat("rename ", NameOf(from), " of ", bytes, " bytes to ", NameOf(to)));
  }
  return static_cast<int>(syscall(SYS_rename, from, to));
}

namespace dslide {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DurableFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(directory_);
    ASSERT_TRUE(MakeDirectory(directory_).ok());
    calls = &calls_;
  }
  void TearDown() override {
    calls = nullptr;
    syncs_fail = false;
    std::filesystem::remove_all(directory_);
  }
  std::string Content() const {
    const auto content = ReadFile(directory_ / "file");
    EXPECT_TRUE(content.ok()) << content.status();
    return content.value_or("");
  }

  const std::filesystem::path directory_ =
      std::filesystem::path(::testing::TempDir()) / absl::StrCat("durable-files-", getpid());
  std::vector<std::string> calls_;
};

TEST_F(DurableFilesTest, AFileIsSyncedBeforeItHasItsNameAndTheNameAfterwards) {
  ASSERT_TRUE(ReplaceFile(directory_ / "file", "one").ok());
  ASSERT_TRUE(ReplaceFile(directory_ / "file", "three").ok());
  const std::string parent = absl::StrCat("sync ", directory_.filename().string());
  EXPECT_THAT(calls_, ElementsAre("sync file.new", "rename file.new of 3 bytes to file", parent,
                                  "sync file.new", "rename file.new of 5 bytes to file", parent));
  EXPECT_EQ(Content(), "three");
}

TEST_F(DurableFilesTest, WhatCouldNotBeSyncedReplacesNothing) {
  ASSERT_TRUE(ReplaceFile(directory_ / "file", "old").ok());
  syncs_fail = true;
  calls_.clear();
  const absl::Status failed = ReplaceFile(directory_ / "file", "new");
  EXPECT_TRUE(absl::IsUnavailable(failed)) << failed;
  EXPECT_THAT(std::string(failed.message()), HasSubstr("file.new"));
  // Once: a second try could succeed although the system has thrown the bytes away.
  EXPECT_THAT(calls_, ElementsAre("sync file.new"));
  EXPECT_EQ(Content(), "old");
}

TEST_F(DurableFilesTest, ADirectoryThatCouldNotBeSyncedIsAnError) {
  syncs_fail = true;
  EXPECT_TRUE(absl::IsUnavailable(SyncDirectory(directory_)));
}

}  // namespace
}  // namespace dslide
