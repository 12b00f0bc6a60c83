#include "core/system/file_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "core/system/sealed_text.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;

TEST(FileListTextTest, ComesBackAsItWasWritten) {
  const std::vector<ListedFile> files = {{"a", 0, 0}, {"model-000/000012.sst", 1 << 20, 0xfe}};
  const std::string text = EncodeFileList(files);
  EXPECT_THAT(text, HasSubstr("\n000000fe 1048576 model-000/000012.sst\n"));
  const auto list = DecodeFileList("FILES", text);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->files, files);
  EXPECT_EQ(list->bytes(), 1 << 20);
  EXPECT_THAT(text, HasSubstr(absl::StrCat("crc32c ", absl::Hex(list->checksum, absl::kZeroPad8))));
}

TEST(FileListTextTest, ALaterFormatIsNotMisread) {
  const auto list = DecodeFileList("FILES", SealText("dslide files 2\n000000fe 5 a\n"));
  EXPECT_TRUE(absl::IsFailedPrecondition(list.status())) << list.status();
  EXPECT_THAT(std::string(list.status().message()), HasSubstr("FILES has format 2"));
  EXPECT_TRUE(absl::IsDataLoss(DecodeFileList("FILES", SealText("other files 1\n")).status()));
}

TEST(FileListTextTest, NoPathLeadsOutOfTheDirectory) {
  for (const char* path : {"a", "FILES", "model-000/OPTIONS-000005", "a/b/c.d_e"}) {
    EXPECT_TRUE(CheckListedPath(path).ok()) << path;
  }
  for (const char* path : {"", "/", "/etc/passwd", "..", "../a", "a/../../b", "a//b", "a/", ".",
                           "a/./b", "a\\b", "a b", "a\nb", "\xff"}) {
    EXPECT_EQ(CheckListedPath(path).code(), absl::StatusCode::kInvalidArgument) << path;
    const auto list = DecodeFileList("FILES", EncodeFileList({{path, 1, 2}}));
    EXPECT_FALSE(list.ok()) << path;
  }
}

TEST(FileListTextTest, AFileIsComparedBySizeAndContent) {
  const std::string directory = absl::StrCat(::testing::TempDir(), "listed.", getpid());
  std::filesystem::create_directories(directory);
  std::ofstream(directory + "/a") << "first";
  const auto sum = SumFile(directory, "a");
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(sum->bytes, 5);
  EXPECT_TRUE(CheckListedFile(directory, *sum).ok());
  std::ofstream(directory + "/a") << "fIrst";
  EXPECT_THAT(std::string(CheckListedFile(directory, *sum).message()), HasSubstr("checksum"));
  std::ofstream(directory + "/a") << "firs";
  EXPECT_THAT(std::string(CheckListedFile(directory, *sum).message()), HasSubstr("has 4 bytes"));
  std::filesystem::remove_all(directory);
  EXPECT_TRUE(absl::IsNotFound(SumFile(directory, "a").status()));
  EXPECT_TRUE(absl::IsDataLoss(CheckListedFile(directory, *sum)));
}

}  // namespace
}  // namespace dslide
