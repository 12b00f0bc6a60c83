#include "services/shard/storage/storage_files.h"

#include <gtest/gtest.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "services/shard/storage/storage_database.h"
#include "tests/unit/services/shard/log/log_samples.h"

namespace dslide::shard {
namespace {

class SummedFilesTest : public LogDirectoryTest {
 protected:
  void SetUp() override {
    LogDirectoryTest::SetUp();
    std::filesystem::create_directories(Path("image"));
  }
  // Some hundred blocks.
  void WriteDatabase() {
    auto writer = RowDatabaseWriter::Create(Path("image/rows"));
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (uint32_t row = 0; row < 4000; ++row) {
      const std::string record(4000, static_cast<char>('a' + row % 26));
      ASSERT_TRUE(writer->Put(0, RowId(row), record).ok());
    }
    ASSERT_TRUE(writer->Finish("what it is").ok());
  }
  static int64_t ReadAll(SummedFiles& files, const std::string& directory) {
    auto reader = RowDatabaseReader::Open({directory}, &files);
    EXPECT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ(reader->ReadMetadata().value_or(""), "what it is");
    int64_t rows = 0;
    for (reader->Begin(); reader->valid(); reader->Next()) ++rows;
    EXPECT_TRUE(reader->status().ok()) << reader->status();
    return rows;
  }
};

TEST_F(SummedFilesTest, ADatabaseIsReadOnceAndSummedAsItIs) {
  WriteDatabase();
  SummedFiles files(Path("image"));
  ASSERT_EQ(ReadAll(files, Path("image/rows")), 4000);
  const int64_t by_then = files.reads().bytes;
  const auto summed = files.Finish();
  ASSERT_TRUE(summed.ok()) << summed.status();
  int64_t bytes = 0;
  for (const ListedFile& file : *summed) {
    const auto again = SumFile(Path("image"), file.path);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(file, *again) << file.path;
    bytes += file.bytes;
  }
  EXPECT_GT(bytes, 4000 * 4000);
  EXPECT_EQ(files.reads().opened, static_cast<int64_t>(summed->size()));
  EXPECT_EQ(files.reads().bytes, bytes) << "no byte twice, none left out";
  EXPECT_GT(by_then, bytes * 99 / 100) << "the rows' reader itself has read nearly all of it";
}

// Table files are read so: their end, where the index is, and then the blocks.
TEST_F(SummedFilesTest, WhatIsReadBeforeItsTurnIsNotReadAgain) {
  std::string content(1'000'000, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * i % 251);
  std::ofstream(Path("image/file"), std::ios::binary) << content;
  SummedFiles files(Path("image"));
  std::unique_ptr<rocksdb::FSRandomAccessFile> file;
  ASSERT_TRUE(files.env()
                  ->GetFileSystem()
                  ->NewRandomAccessFile(Path("image/file"), rocksdb::FileOptions(), &file, nullptr)
                  .ok());
  const auto read = [&](uint64_t offset, size_t n) {
    std::string scratch(n, '\0');
    rocksdb::Slice got;
    EXPECT_TRUE(file->Read(offset, n, rocksdb::IOOptions(), &got, scratch.data(), nullptr).ok());
    return got.ToString();
  };
  EXPECT_EQ(read(900'000, 200'000), content.substr(900'000)) << "cut at the end";
  EXPECT_EQ(read(500'000, 100'000), content.substr(500'000, 100'000));
  EXPECT_EQ(read(0, 200'000), content.substr(0, 200'000));
  EXPECT_EQ(read(150'000, 400'000), content.substr(150'000, 400'000)) << "partly read again";
  EXPECT_EQ(read(550'000, 450'000), content.substr(550'000)) << "over what is known";
  EXPECT_EQ(read(1'000'000, 10), "");
  EXPECT_EQ(files.reads().bytes, 1'000'000 + 50'000);
  const auto summed = files.Finish();
  ASSERT_TRUE(summed.ok()) << summed.status();
  EXPECT_EQ(summed->at(0), *SumFile(Path("image"), "file"));
  EXPECT_EQ(files.reads().bytes, 1'000'000 + 50'000);
}

TEST_F(SummedFilesTest, WhatNobodyAskedForIsReadAtTheEnd) {
  std::ofstream(Path("image/file"), std::ios::binary) << std::string(3'000'000, 'x');
  std::ofstream(Path("image/small"), std::ios::binary) << "small";
  std::ofstream(Path("image/empty"), std::ios::binary);
  SummedFiles files(Path("image"));
  for (const char* name : {"file", "empty"}) {
    std::unique_ptr<rocksdb::FSRandomAccessFile> file;
    ASSERT_TRUE(files.env()
                    ->GetFileSystem()
                    ->NewRandomAccessFile(Path("image/" + std::string(name)),
                                          rocksdb::FileOptions(), &file, nullptr)
                    .ok());
  }
  EXPECT_EQ(files.Read("small").value_or(""), "small");
  EXPECT_EQ(files.Read("small").value_or(""), "small");
  EXPECT_TRUE(absl::IsDataLoss(files.Read("none").status())) << files.Read("none").status();
  const auto summed = files.Finish();
  ASSERT_TRUE(summed.ok()) << summed.status();
  ASSERT_EQ(summed->size(), 3u);
  for (const ListedFile& file : *summed) EXPECT_EQ(file, *SumFile(Path("image"), file.path));
  EXPECT_EQ(files.reads().bytes, 3'000'005);
}

}  // namespace
}  // namespace dslide::shard
