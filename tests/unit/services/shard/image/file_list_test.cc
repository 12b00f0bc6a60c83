#include "services/shard/image/file_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace dslide::shard {
namespace {

using ::testing::HasSubstr;

class FileListTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = absl::StrCat(::testing::TempDir(), "file_list.", getpid());
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_ + "/below");
    Write("a", "first");
    Write("below/b", "second");
    Write("empty", "");
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void Write(const std::string& name, const std::string& content) {
    std::ofstream(absl::StrCat(directory_, "/", name), std::ios::binary) << content;
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(absl::StrCat(directory_, "/", name), std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  // The message of a refusal that names data loss.
  std::string Damage() const {
    const auto verified = VerifyFileList(directory_);
    EXPECT_TRUE(absl::IsDataLoss(verified.status())) << verified.status();
    return std::string(verified.status().message());
  }

  std::string directory_;
};

// Their bytes were read when they were written, and whoever verifies reads them again.
TEST_F(FileListTest, KnownFilesAreListedAsTheyWereAndNotRead) {
  const auto whole = WriteFileList(directory_);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const auto listed = ReadListedFiles(directory_);
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->files[1].path, "below/b");
  Write("below/b", "SECOND");
  const auto known = absl::MakeConstSpan(listed->files).subspan(1, 1);
  const auto again = WriteFileList(directory_, known);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->checksum, whole->checksum);
  EXPECT_THAT(Damage(), HasSubstr("below/b does not have its checksum"));
  Write("below/b", "longer than it was");
  EXPECT_TRUE(absl::IsDataLoss(WriteFileList(directory_, known).status()));
}

TEST_F(FileListTest, FindsEverythingAsItWas) {
  const auto written = WriteFileList(directory_);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->files, 3);
  EXPECT_EQ(written->bytes, 11);
  for (const auto& read : {ReadFileList(directory_), VerifyFileList(directory_)}) {
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->files, 3);
    EXPECT_EQ(read->bytes, 11);
    EXPECT_EQ(read->checksum, written->checksum);
  }
}

TEST_F(FileListTest, EqualFilesHaveEqualListsAndOtherFilesOtherOnes) {
  const uint32_t first = WriteFileList(directory_)->checksum;
  EXPECT_EQ(WriteFileList(directory_)->checksum, first);
  Write("a", "First");
  EXPECT_NE(WriteFileList(directory_)->checksum, first);
}

TEST_F(FileListTest, NamesWhatIsMissingSurplusOrChanged) {
  ASSERT_TRUE(WriteFileList(directory_).ok());
  Write("a", "fIrst");
  EXPECT_THAT(Damage(), HasSubstr("/a does not have its checksum"));
  Write("a", "first and more");
  EXPECT_THAT(Damage(), HasSubstr("/a has 14 bytes, was written with 5"));
  Write("a", "first");
  std::filesystem::remove(directory_ + "/below/b");
  EXPECT_THAT(Damage(), HasSubstr("/below/b is missing"));
  Write("below/b", "second");
  Write("below/c", "third");
  EXPECT_THAT(Damage(), HasSubstr("/below/c was not written with the others"));
}

TEST_F(FileListTest, NoticesEveryFlippedByteOfTheList) {
  ASSERT_TRUE(WriteFileList(directory_).ok());
  const std::string good = Read("FILES");
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 0x08;
    Write("FILES", bad);
    EXPECT_TRUE(absl::IsDataLoss(ReadFileList(directory_).status())) << i;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    Write("FILES", good.substr(0, size));
    EXPECT_TRUE(absl::IsDataLoss(ReadFileList(directory_).status())) << size;
  }
  std::filesystem::remove(directory_ + "/FILES");
  EXPECT_THAT(Damage(), HasSubstr("FILES is missing"));
}

}  // namespace
}  // namespace dslide::shard
