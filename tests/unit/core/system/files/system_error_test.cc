#include "core/system/files/system_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "core/base/reason.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;

TEST(SystemErrorTest, TheCodeSaysWhatToDo) {
  for (const int error : {ENOSPC, EDQUOT, EFBIG}) {
    const absl::Status full = SystemError("write", "/data/x", error);
    EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
    EXPECT_EQ(ReasonOf(full), "DISK_FULL");
    EXPECT_TRUE(IsDiskFull(full));
    EXPECT_THAT(std::string(full.message()), HasSubstr("cannot write /data/x: "));
  }
  for (const int error : {EACCES, EPERM, EROFS}) {
    EXPECT_TRUE(absl::IsPermissionDenied(SystemError("open", "/data/x", error)));
  }
  for (const int error : {EIO, ENOENT, EMFILE}) {
    const absl::Status other = SystemError("open", "/data/x", error);
    EXPECT_TRUE(absl::IsUnavailable(other)) << other;
    EXPECT_FALSE(IsDiskFull(other));
  }
}

TEST(SystemErrorTest, TheWordsOfALibraryAreUnderstood) {
  const absl::Status full = SystemErrorOf("making it: IO error: No space left on device: x.sst");
  EXPECT_TRUE(IsDiskFull(full)) << full;
  EXPECT_THAT(std::string(full.message()), HasSubstr("x.sst; free space there"));
  EXPECT_TRUE(absl::IsPermissionDenied(SystemErrorOf("x/LOCK: Permission denied")));
  EXPECT_TRUE(absl::IsUnavailable(SystemErrorOf("Corruption: bad block")));
  EXPECT_TRUE(IsDiskFailure("x.sst: Input/output error"));
  EXPECT_FALSE(IsDiskFailure("Corruption: bad block"));
}

}  // namespace
}  // namespace dslide
