#include "core/engine/data/data_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "core/base/counter_rng.h"
#include "core/base/status_macros.h"
#include "core/engine/data/file_output.h"
#include "core/system/files/system_error.h"
#include "tests/unit/core/engine/data/test_files.h"

namespace dslide {
namespace {

using ::testing::HasSubstr;

// Text that does not shrink to nothing, so that half of an archive is really half of it.
std::string SomeText(int64_t bytes) {
  CounterRng rng(3);
  std::string text;
  while (static_cast<int64_t>(text.size()) < bytes) {
    text += std::to_string(rng.NextBits());
    text += '\n';
  }
  return text;
}

TEST(DataFileTest, MapsAPlainFile) {
  TempDir dir;
  WriteFile(dir.File("a.txt"), "hello");
  const absl::StatusOr<DataFile> file = DataFile::Open(dir.File("a.txt"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->bytes(), "hello");
  EXPECT_FALSE(file->compressed());
  EXPECT_EQ(file->path(), dir.File("a.txt"));
}

TEST(DataFileTest, AnEmptyFileHasNoBytes) {
  TempDir dir;
  WriteFile(dir.File("a.txt"), "");
  const absl::StatusOr<DataFile> file = DataFile::Open(dir.File("a.txt"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->size(), 0);
}

TEST(DataFileTest, MovingKeepsTheMapping) {
  TempDir dir;
  WriteFile(dir.File("a.txt"), "hello");
  absl::StatusOr<DataFile> file = DataFile::Open(dir.File("a.txt"));
  DataFile moved = *std::move(file);
  DataFile assigned;
  assigned = std::move(moved);
  EXPECT_EQ(assigned.bytes(), "hello");
}

class CompressedFileTest : public testing::TestWithParam<const char*> {};

TEST_P(CompressedFileTest, RoundTripsWhateverTheName) {
  TempDir dir;
  const std::string text = SomeText(600000);
  WriteCompressed(dir.File("misleading.txt"), GetParam(), text);
  int64_t last_done = -1;
  int64_t last_total = 0;
  DataFileOptions options;
  options.progress = [&](int64_t done, int64_t total) {
    last_done = done;
    last_total = total;
  };
  const absl::StatusOr<DataFile> file = DataFile::Open(dir.File("misleading.txt"), options);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->compressed());
  EXPECT_TRUE(file->bytes() == text);
  EXPECT_EQ(last_done, last_total);
  EXPECT_EQ(last_total,
            static_cast<int64_t>(std::filesystem::file_size(dir.File("misleading.txt"))));
}

TEST_P(CompressedFileTest, NothingUnpacksToNothing) {
  TempDir dir;
  if (std::string(GetParam()) == "lz4") {  // libarchive 3.6 crashes when it writes this frame
    WriteFile(dir.File("empty"),
              std::string("\x04\x22\x4d\x18\x64\x40\xa7\0\0\0\0\x05\x5d\xcc\x02", 15));
  } else {
    WriteCompressed(dir.File("empty"), GetParam(), "");
  }
  const absl::StatusOr<DataFile> file = DataFile::Open(dir.File("empty"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->size(), 0);
}

TEST_P(CompressedFileTest, ATruncatedArchiveIsDataLoss) {
  TempDir dir;
  WriteCompressed(dir.File("whole"), GetParam(), SomeText(600000));
  const std::string packed = ReadFile(dir.File("whole"));
  for (const size_t kept : {packed.size() / 2, packed.size() - 20, size_t{16}}) {
    WriteFile(dir.File("cut"), packed.substr(0, kept));
    const absl::StatusOr<DataFile> file = DataFile::Open(dir.File("cut"));
    ASSERT_FALSE(file.ok()) << "kept " << kept << " of " << packed.size() << ", got "
                            << file->size();
    EXPECT_EQ(file.status().code(), absl::StatusCode::kDataLoss) << file.status();
    EXPECT_THAT(std::string(file.status().message()), HasSubstr(dir.File("cut")));
    EXPECT_THAT(std::string(file.status().message()), HasSubstr("truncated or corrupt"));
  }
}

// Without a count of lines nobody would miss the second half.
TEST_P(CompressedFileTest, AllMembersAreReadToTheirEnd) {
  TempDir dir;
  const std::string text = SomeText(100000);
  WriteCompressed(dir.File("whole"), GetParam(), text);
  const std::string packed = ReadFile(dir.File("whole"));
  WriteFile(dir.File("two"), packed + packed);
  const absl::StatusOr<DataFile> two = DataFile::Open(dir.File("two"));
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_TRUE(two->bytes() == text + text);
  std::string damaged = packed;
  damaged[0] ^= 1;
  std::vector<std::string> refused = {packed + damaged, packed + "garbage\n"};
  for (const size_t kept :
       {size_t{1}, size_t{5}, size_t{9}, packed.size() / 2, packed.size() - 1}) {
    refused.push_back(packed + packed.substr(0, kept));
  }
  for (const std::string& bytes : refused) {
    WriteFile(dir.File("cut"), bytes);
    const absl::StatusOr<DataFile> file = DataFile::Open(dir.File("cut"));
    ASSERT_FALSE(file.ok()) << bytes.size() - packed.size() << " bytes behind the first member";
    EXPECT_EQ(file.status().code(), absl::StatusCode::kDataLoss) << file.status();
  }
}

INSTANTIATE_TEST_SUITE_P(Filters, CompressedFileTest,
                         testing::Values("gzip", "xz", "zstd", "lz4", "bzip2"),
                         [](const auto& info) { return std::string(info.param); });

// Of a block that is stored as it is, so that the flipped bit unpacks without an error.
TEST(DataFileTest, AGzipWithAWrongChecksumOrLengthIsDataLoss) {
  TempDir dir;
  const std::string stored(
      "\x1f\x8b\x08\0\0\0\0\0\0\x03\x01\x04\0\xfb\xff"
      "1 2\n",
      19);
  const std::string checksum("\x57\xbb\x3b\x5c", 4);
  const std::string length("\x04\0\0\0", 4);
  WriteFile(dir.File("good.gz"), stored + checksum + length + std::string(3, '\0'));
  const absl::StatusOr<DataFile> good = DataFile::Open(dir.File("good.gz"));
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(good->bytes(), "1 2\n");
  std::string flipped = stored;
  flipped[15] = '3';
  for (const std::string& bytes :
       {flipped + checksum + length, stored + checksum + std::string("\x05\0\0\0", 4)}) {
    WriteFile(dir.File("bad.gz"), bytes);
    EXPECT_EQ(DataFile::Open(dir.File("bad.gz")).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST(DataFileTest, NamesWhatIsNoTextAndTheRemedy) {
  TempDir dir;
  const std::string tar = std::string(257, 'a') + "ustar" + std::string(250, '\0');
  const std::pair<std::string, std::string> foreign[] = {
      {"PK\x03\x04 and more", "is a zip archive: unpack it first (unzip)"},
      {std::string("\x5d\0\0\x80\0", 5), "is an .lzma file: unpack it first (xz -d)"},
      {"7z\xbc\xaf\x27\x1c and more", "is a 7z archive"},
      {tar, "is a tar archive: unpack it first (tar -xf)"},
      {"PAR1 and more", "is a Parquet file: write it as text first"},
      {std::string("\xff\xfe\x31\0", 4), "is text in UTF-16: save it as UTF-8"}};
  for (const auto& [bytes, why] : foreign) {
    WriteFile(dir.File("foreign"), bytes);
    WriteCompressed(dir.File("packed"), "gzip", bytes);
    for (const char* name : {"foreign", "packed"}) {
      const absl::Status status = DataFile::Open(dir.File(name)).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(dir.File(name) + " " + why));
    }
  }
  for (const char* text : {"BZh is how this text begins", "BZh", "BZh9"}) {
    WriteFile(dir.File("text"), text);
    EXPECT_TRUE(DataFile::Open(dir.File("text")).ok()) << text;
  }
}

TEST(DataFileTest, AByteOrderMarkIsNoContent) {
  TempDir dir;
  WriteFile(dir.File("plain"), "\xef\xbb\xbfhello");
  WriteCompressed(dir.File("packed"), "xz", "\xef\xbb\xbfhello");
  WriteFile(dir.File("alone"), "\xef\xbb\xbf");
  EXPECT_EQ(DataFile::Open(dir.File("plain"))->bytes(), "hello");
  EXPECT_EQ(DataFile::Open(dir.File("packed"))->bytes(), "hello");
  EXPECT_EQ(DataFile::Open(dir.File("alone"))->bytes(), "");
}

TEST(DataFileTest, LeavesNothingInTheTemporaryFolder) {
  TempDir dir;
  TempDir temporary;
  WriteCompressed(dir.File("a.gz"), "gzip", "content");
  DataFileOptions options;
  options.temp_dir = temporary.File("");
  const absl::StatusOr<DataFile> file = DataFile::Open(dir.File("a.gz"), options);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->bytes(), "content");
  EXPECT_TRUE(std::filesystem::is_empty(temporary.File("")));
}

TEST(DataFileTest, NamesWhatCannotBeOpened) {
  TempDir dir;
  const absl::Status missing = DataFile::Open(dir.File("missing")).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("cannot open " + dir.File("missing")));

  const absl::Status folder = DataFile::Open(dir.File("")).status();
  EXPECT_EQ(folder.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(folder.message(), dir.File("") + " is a directory; a data file is needed");

  ASSERT_EQ(mkfifo(dir.File("pipe").c_str(), 0600), 0);
  const absl::Status pipe = DataFile::Open(dir.File("pipe")).status();
  EXPECT_EQ(pipe.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(pipe.message()), HasSubstr("is not a regular file"));
}

TEST(DataFileTest, NamesAMissingTemporaryFolderAndTheRemedy) {
  TempDir dir;
  WriteCompressed(dir.File("a.gz"), "gzip", "content");
  DataFileOptions options;
  options.temp_dir = dir.File("nowhere");
  const absl::Status status = DataFile::Open(dir.File("a.gz"), options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(dir.File("nowhere")));
  EXPECT_THAT(std::string(status.message()), HasSubstr("TMPDIR"));
}

TEST(FileOutputTest, AppearsOnlyWhenCommitted) {
  TempDir dir;
  {
    absl::StatusOr<FileOutput> out = FileOutput::Create(dir.File("out"));
    ASSERT_TRUE(out.ok()) << out.status();
    ASSERT_TRUE(out->Append("half").ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.File("")));
  absl::StatusOr<FileOutput> out = FileOutput::Create(dir.File("out"));
  ASSERT_TRUE(out->Append("whole").ok());
  ASSERT_TRUE(out->Commit().ok());
  EXPECT_EQ(ReadFile(dir.File("out")), "whole");
  const auto entries = std::filesystem::directory_iterator(dir.File(""));
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST(FileOutputTest, AFullDiskIsResourceExhausted) {
  absl::StatusOr<FileOutput> out = FileOutput::Create("/dev/full");
  ASSERT_TRUE(out.ok()) << out.status();
  ASSERT_TRUE(out->Append("some bytes").ok());
  const absl::Status status = out->Commit();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_TRUE(IsDiskFull(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot write /dev/full: No space left"));
}

absl::Status WriteTo(const std::string& path) {
  ASSIGN_OR_RETURN(FileOutput out, FileOutput::Create(path));
  RETURN_IF_ERROR(out.Append("new"));
  return out.Commit();
}

TEST(FileOutputTest, WhatIsNoFileStaysWhatItIs) {
  TempDir dir;
  ASSERT_TRUE(WriteTo("/dev/null").ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  ASSERT_EQ(mkfifo(dir.File("pipe").c_str(), 0600), 0);
  const int reader = open(dir.File("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_TRUE(WriteTo(dir.File("pipe")).ok());
  char got[8] = {};
  EXPECT_EQ(read(reader, got, sizeof(got)), 3);
  close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(dir.File("pipe")));
  EXPECT_EQ(WriteTo(dir.File("")).code(), absl::StatusCode::kInvalidArgument);
}

TEST(FileOutputTest, ALinkStaysAndItsTargetIsWritten) {
  TempDir dir;
  std::filesystem::create_directory(dir.File("folder"));
  WriteFile(dir.File("folder/target"), "old");
  std::filesystem::permissions(dir.File("folder/target"), std::filesystem::perms(0640));
  std::filesystem::create_symlink("folder/target", dir.File("link"));
  std::filesystem::create_symlink("folder/absent", dir.File("dangling"));
  ASSERT_TRUE(WriteTo(dir.File("link")).ok());
  ASSERT_TRUE(WriteTo(dir.File("dangling")).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(dir.File("link")));
  EXPECT_TRUE(std::filesystem::is_symlink(dir.File("dangling")));
  EXPECT_EQ(ReadFile(dir.File("folder/target")), "new");
  EXPECT_EQ(ReadFile(dir.File("folder/absent")), "new");
  EXPECT_EQ(std::filesystem::status(dir.File("folder/target")).permissions(),
            std::filesystem::perms(0640));
}

TEST(FileOutputTest, AFileOfTheNameOfAPartIsNotTouched) {
  TempDir dir;
  const std::string other = dir.File("out.partial-" + std::to_string(getpid()));
  WriteFile(other, "somebody's");
  ASSERT_TRUE(WriteTo(dir.File("out")).ok());
  EXPECT_EQ(ReadFile(other), "somebody's");
}

}  // namespace
}  // namespace dslide
