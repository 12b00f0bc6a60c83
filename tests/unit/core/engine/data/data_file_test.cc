#include "core/engine/data/data_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/counter_rng.h"
#include "core/engine/data/file_output.h"
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

INSTANTIATE_TEST_SUITE_P(Filters, CompressedFileTest, testing::Values("gzip", "xz", "zstd", "lz4"),
                         [](const auto& info) { return std::string(info.param); });

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
  EXPECT_FALSE(std::filesystem::exists(dir.File("out.partial")));
}

TEST(FileOutputTest, AFullDiskIsResourceExhausted) {
  TempDir dir;
  std::filesystem::create_symlink("/dev/full", dir.File("out.partial"));
  absl::StatusOr<FileOutput> out = FileOutput::Create(dir.File("out"));
  ASSERT_TRUE(out.ok()) << out.status();
  ASSERT_TRUE(out->Append("some bytes").ok());
  const absl::Status status = out->Commit();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot write " + dir.File("out")));
}

}  // namespace
}  // namespace dslide
